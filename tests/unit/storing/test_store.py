"""Runs as files: what goes in comes out, and nothing half-written is ever seen."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from handmade import kernel, run

from perfcli.blobs import blob_id, pack, unpack
from perfcli.errors import PerfcliError
from perfcli.model import Bundle, ExternCall, GraphFacts, Launch, OperatorCall, Run, Variant
from perfcli.storing import store


def bundle(id: str = "261121-120000-aaaa", texts: int = 3, **more: object) -> Bundle:
    texts_of = [f"kernel {n} é\n" * 50 for n in range(texts)]
    blobs = {blob_id(text): pack(text) for text in texts_of}
    made = run([kernel("a", "mul", stack=8), kernel("b", "add")], id=id)
    return Bundle(replace(made, **more), blobs)  # type: ignore[arg-type]


def stored(tmp_path: Path, **more: object) -> Path:
    return store.save(bundle(**more), tmp_path / ".perfcli" / "runs")  # type: ignore[arg-type]


def blobs(path: Path) -> object:
    return json.loads(path.read_text())["blobs"]


def test_a_bundle_comes_back_equal(tmp_path: Path) -> None:
    given = bundle()
    path = tmp_path / "run.json"
    store.write(given, path)
    assert store.read(path) == given.run
    assert blobs(path) == given.blobs
    for name, packed in given.blobs.items():
        assert store.read_blob(path, name) == unpack(packed)


def test_a_file_is_plain_json_and_survives_other_json_tools(tmp_path: Path) -> None:
    path = stored(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert store.read(path) == bundle().run
    assert blobs(path) == bundle().blobs
    assert [s.header.id for s in store.runs(path.parent)] == [bundle().run.id]


def test_a_run_stored_before_operations_were_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    store.write(Bundle(run([replace(kernel("k"), operations=7)]), {}), path)
    document = json.loads(path.read_text())
    assert document["run"]["kernels"][0].pop("operations") == 7
    del document["checksum"]
    path.write_text(json.dumps(document))
    assert [k.operations for k in store.read(path).kernels] == [None]


def test_a_run_stored_before_finishing_calls_were_marked(tmp_path: Path) -> None:
    graph = "backward 0"
    launches = (Launch(graph, "a"), Launch(graph, "aten.sum.dim_IntList", extern=True))
    path = stored(tmp_path, launches=launches)
    document = json.loads(path.read_text())
    for launch in document["run"]["launches"]:
        launch.pop("finishing", None)
    del document["checksum"]
    path.write_text(json.dumps(document))
    assert store.read(path).launches == launches


def test_empty_blobs(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    store.write(bundle(texts=0), path)
    assert blobs(path) == {}


def test_listing_reads_the_first_line_and_the_end_only(tmp_path: Path) -> None:
    path = stored(tmp_path)
    first = path.read_bytes().split(b"\n")[0]
    path.write_bytes(first + b"\nnot JSON any more}}\n")
    assert [s.header.kernels for s in store.runs(path.parent)] == [2]


# --- broken files ----------------------------------------------------------------------------


def complaint(path: Path) -> str:
    with pytest.raises(PerfcliError) as caught:
        store.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    store.write(bundle(), path)
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(PerfcliError):
            store.read(path)
    path.write_bytes(whole[:-1])
    assert "truncated" in complaint(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"hello", "not a run"),
        (b"\xff\xfe\x00", "not a run"),
        (b"[1, 2]", "not a run"),
        (b"{}", "JSON but not a run"),
        (b'{"perfcli":"run","format":"one"}', "broken"),
        (b'{"perfcli":"run","format":1}', "broken"),
        (b'{"perfcli":"run","format":1,"run":{"id":7}}', "broken"),
        (b'{"perfcli":"run","format":99,"run":{}}', "format 99"),
    ],
)
def test_a_foreign_file_gets_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    assert expected in complaint(path)


def test_a_newer_format_says_what_to_do(tmp_path: Path) -> None:
    path = stored(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2', 1))
    assert "upgrade perfcli" in complaint(path)
    assert store.runs(path.parent) == []


def test_a_damaged_text_is_noticed(tmp_path: Path) -> None:
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    names = sorted(document["blobs"])
    document["blobs"][names[0]] = document["blobs"][names[1]]
    path.write_text(json.dumps(document))
    with pytest.raises(PerfcliError, match=f"text {names[0][:12]}… does not match its hash"):
        store.read_blob(path, names[0])
    assert store.read(path) == bundle().run
    document["blobs"][names[0]] = "AAAA"
    path.write_text(json.dumps(document))
    with pytest.raises(PerfcliError, match=f"text {names[0][:12]}… is damaged"):
        store.read_blob(path, names[0])


def test_a_missing_text_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="does not hold the text 000000000000…: it was"):
        store.read_blob(stored(tmp_path), "0" * 64)
    assert "no such file" in complaint(tmp_path / "nowhere.json")
    assert "can't read" in complaint(tmp_path)


# --- interrupted writes ----------------------------------------------------------------------


def nothing_left(folder: Path) -> bool:
    return not any(path.is_file() for path in folder.rglob("*"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PerfcliError, match="no space left"):
        stored(tmp_path)
    assert nothing_left(tmp_path)


def test_a_write_that_the_kernel_really_refuses(tmp_path: Path) -> None:
    """A file-size limit is the one full disk that needs no privileges to arrange."""
    code = f"""
    import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})
    import resource, signal
    from pathlib import Path
    from handmade import kernel, run
    from perfcli.storing import store
    from perfcli.model import Bundle
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    store.save(Bundle(run([kernel(str(n)) for n in range(50)]), {{}}), Path({str(tmp_path)!r}))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert "PerfcliError: no space left" in process.stderr
    assert nothing_left(tmp_path)


def test_an_interrupted_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path)
    assert nothing_left(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / ".perfcli").write_text("a file is in the way")
    with pytest.raises(PerfcliError, match="can't write"):
        stored(tmp_path)


def test_a_failed_write_keeps_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path)
    monkeypatch.setattr(os, "replace", lambda a, b: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with pytest.raises(PerfcliError):
        stored(tmp_path, scenario="softmax")
    assert store.read(path).scenario == "rmsnorm"


# --- the folder ------------------------------------------------------------------------------


def test_ids_sort_by_time_and_differ() -> None:
    early = store.new_id(datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC))
    late = store.new_id(datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert early.startswith("261121-090000-")
    assert early < late
    # Two of 200 within one second meet by chance in 1 of 85 tries, ten never.
    assert len({store.new_id() for _ in range(200)}) > 195


def test_runs_are_listed_by_time_and_found(tmp_path: Path) -> None:
    folder = stored(tmp_path, id="b", created="2026-01-02", fingerprint="f").parent
    stored(tmp_path, id="a", created="2026-01-03", fingerprint="f")
    stored(tmp_path, id="c", created="2026-01-01", fingerprint="g")
    assert [s.header.id for s in store.runs(folder)] == ["c", "b", "a"]
    newest = store.find("f", folder)
    assert newest is not None
    assert newest.header.id == "a"
    assert newest.header.spilled_words == 2
    assert store.find("h", folder) is None
    assert store.find("a", folder) is None


def test_an_absent_store_is_empty(tmp_path: Path) -> None:
    assert store.runs(tmp_path / "no") == []
    assert store.locate("261121", tmp_path / "no") is None


def test_a_listing_skips_what_it_cannot_read(tmp_path: Path) -> None:
    folder = stored(tmp_path).parent
    (folder / "broken.json").write_text('{"perfcli":"run"')
    (folder / "other.json").write_text("{}")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    (folder / ".half.tmp").write_text("x")
    assert len(store.runs(folder)) == 1


def test_a_run_is_located_by_path_id_and_beginning(tmp_path: Path) -> None:
    path = stored(tmp_path, id="261121-120000-aaaa")
    folder = path.parent
    stored(tmp_path, id="261121-120000-aabb")
    assert store.locate(str(path), folder) == path
    assert store.locate("261121-120000-aaaa", folder) == path
    assert store.locate("261121-120000-aaa", folder) == path
    assert store.locate("rmsnorm", folder) is None
    assert store.locate("../x", folder) is None
    assert store.locate("", folder) is None
    with pytest.raises(PerfcliError, match="2 runs"):
        store.locate("2611", folder)


@pytest.mark.parametrize("left", [0.02, 0.3, 0.99])
def test_a_file_that_is_cut_off_is_no_run_of_a_listing(tmp_path: Path, left: float) -> None:
    whole = stored(tmp_path, id="whole", fingerprint="f")
    cut = stored(tmp_path, id="zcut", fingerprint="f")
    text = cut.read_bytes()
    cut.write_bytes(text[: int(len(text) * left)])
    folder = whole.parent
    assert [each.path for each in store.runs(folder)] == [whole]
    assert store.damaged(folder) == [cut]
    found = store.find("f", folder)
    assert found is not None
    assert found.path == whole
    anew = json.dumps(json.loads(text), separators=(",", ":"))  # as another tool writes it
    cut.write_text(anew)
    assert store.damaged(folder) == []
    cut.write_bytes(text[:-1])
    assert store.damaged(folder) == [cut]


def test_the_store_keeps_out_of_commits(tmp_path: Path) -> None:
    stored(tmp_path)
    assert (tmp_path / ".perfcli" / ".gitignore").read_text() == "*\n"


def _save_many(folder: Path, first: int) -> None:
    for number in range(first, first + 20):
        store.save(bundle(id=f"run{number}"), folder)


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / ".perfcli" / "runs"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_save_many, args=(folder, 100 * n)) for n in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert all(isinstance(store.read(s.path), Run) for s in store.runs(folder))
    for writer in writers:
        writer.join()
    assert len(store.runs(folder)) == 80
    assert not list(folder.glob("*.tmp")) and not list(folder.glob(".*.tmp"))


def test_a_listing_is_cheap_in_memory(tmp_path: Path) -> None:
    folder = stored(tmp_path, texts=2000).parent
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        store.runs(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


# --- files that were changed, and files that nobody can have written ------------------------


def test_no_flipped_bit_is_read_as_another_run(tmp_path: Path) -> None:
    """Every bit of every 29th byte of header and facts: an error, or the very same run."""
    path = stored(tmp_path)
    whole = path.read_bytes()
    facts = whole.index(b',\n"blobs"')
    read = []
    for place in range(0, facts, 29):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            with suppress(PerfcliError):
                read.append(store.read(path, sealed=True))
    assert all(made == bundle().run for made in read)


def test_an_edited_fact_is_noticed_and_a_new_layout_is_none(tmp_path: Path) -> None:
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document, indent=1))
    assert store.read(path, sealed=True) == bundle().run
    document["run"]["kernels"][0]["bytes_read"] += 1
    path.write_text(json.dumps(document))
    assert "do not match their checksum" in complaint(path)


def test_a_file_without_a_checksum_is_read_and_is_not_sealed(tmp_path: Path) -> None:
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    del document["checksum"]
    path.write_text(json.dumps(document))
    assert store.read(path) == bundle().run
    with pytest.raises(PerfcliError, match="no checksum"):
        store.read(path, sealed=True)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("bytes_read", -5, "kernels[1].bytes_read is -5"),
        ("bytes_written", 10**30, "kernels[1].bytes_written is 1e+30"),
        ("lower_bound_seconds", 1e300, "kernels[1].lower_bound_seconds is 1e+300"),
        ("launches", -1, "kernels[1].launches is -1"),
    ],
)
def test_a_number_that_no_compilation_gives(
    tmp_path: Path, field: str, value: float, said: str
) -> None:
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    del document["checksum"]
    document["run"]["kernels"][1][field] = value
    path.write_text(json.dumps(document))
    assert said in complaint(path)


def test_signs_that_are_meant(tmp_path: Path) -> None:
    """A parameter, an option, an operator's argument and Inductor's live memory may be negative."""
    calls = (OperatorCall((), {"dim": -1}),)
    given = bundle(
        params={"shift": -3},
        variant=Variant("x", {"a.b": -1}),
        externs=(ExternCall("aten.topk", "forward 0", 1, calls),),
        graphs=(GraphFacts("forward 0", "forward", 0, 2, live_bytes=(-201_000_000, 5)),),
    )
    path = tmp_path / "run.json"
    store.write(given, path)
    assert store.read(path) == given.run


@pytest.mark.parametrize("part", ["run", "blobs", "other", "header"])
def test_deep_nesting(tmp_path: Path, part: str) -> None:
    path = tmp_path / "run.json"
    nested = "[" * 200_000 + "]" * 200_000
    path.write_text(f'{{"perfcli":"run","format":1,"{part}":{nested}}}')
    complaint(path)
    assert store.runs(tmp_path) == []


def test_a_text_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    """33 MB of one letter are 32 KB in the file; the text is refused before it is all unpacked."""
    text = "a" * (33 << 20)
    path = tmp_path / "run.json"
    store.write(Bundle(bundle().run, {blob_id(text): pack(text)}), path)
    with pytest.raises(PerfcliError, match="larger than 32 MiB"):
        store.read_blob(path, blob_id(text))
    with pytest.raises(ValueError, match="truncated"):
        unpack(pack("cut off" * 90)[:20])


def test_a_file_larger_than_any_run(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)  # takes no room on the disk
    assert "larger than 256 MiB" in complaint(path)


@pytest.mark.parametrize(("name", "ignored"), [(".perfcli", True), (".a", False), (".z", False)])
def test_only_the_stores_own_folder_is_ignored(name: str, ignored: bool, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    store.keep_out_of_commits(folder)
    assert (folder / ".gitignore").exists() is ignored


@pytest.mark.parametrize("text", ['{"perfcli":"run"}', '{"perfcli":"run","format":0}'])
def test_a_run_has_a_format(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(PerfcliError) as caught:
        store.read(path)
    assert str(caught.value) == f"{path} is JSON but not a run of perfcli"


@pytest.mark.parametrize(("number", "listed"), [(5, ""), (6, ", …")])
def test_a_beginning_of_several_runs_names_five(number: int, listed: str, tmp_path: Path) -> None:
    names = [f"261121-{n}" for n in range(number)]
    for name in names:
        (tmp_path / f"{name}.json").write_text("")
    with pytest.raises(PerfcliError) as caught:
        store.locate("2611", tmp_path)
    assert str(caught.value) == (
        f"'2611' is the beginning of {number} runs: {', '.join(names[:5])}{listed}"
    )
