"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent);
  const dialog = document.getElementById("panel");

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const button = (text, name, act) => {
    const element = make("button", name, text);
    element.type = "button";
    element.addEventListener("click", act);
    return element;
  };

  // --- light and dark --------------------------------------------------------------------------

  const remembered = (value) => {
    try {
      if (value) localStorage.setItem("perfcli-theme", value);
      return localStorage.getItem("perfcli-theme");
    } catch { return value; }  // a browser that keeps nothing for files
  };
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = document.querySelector(".theme");
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
  });

  // --- the table of kernels: sort and filter -----------------------------------------------------

  const setUpTable = (form) => {
    const table = form.parentElement.querySelector("table.kernels");
    const body = table.tBodies[0];
    const rows = [...body.rows];  // as they came: costliest first
    const [text, only, byChange] = form.querySelectorAll("input[type=search], select, input[type=checkbox]");
    const count = form.querySelector("output");
    let key = "";
    let direction = 0;

    const filter = () => {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const wanted = words.every((word) => row.dataset.search.includes(word))
          && (!only.value || (only.value === "*changed" ? row.dataset.changed === "1" : row.dataset.relation === only.value));
        row.hidden = !wanted;
        shown += wanted;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
    };
    const value = (row) => {
      if (key === "name") return row.dataset.search;
      if (key === "relation") return row.cells[1].textContent;
      const cell = row.cells[Number(key) + 2].dataset;
      const number = byChange.checked ? cell.d : cell.v;
      return number === "" ? null : Number(number);
    };
    const sort = () => {
      const keyed = rows.map((row, place) => ({ row, place, value: direction ? value(row) : 0 }));
      keyed.sort((a, b) => {
        if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || a.place - b.place;
        const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
        return order * direction || a.place - b.place;
      });
      body.append(...keyed.map((each) => each.row));
    };
    for (const head of table.tHead.rows[0].cells) {
      const title = head.textContent;
      const first = head.classList.contains("text") ? 1 : -1;
      head.replaceChildren(button(title, "", () => {
        direction = key === head.dataset.key ? { [first]: -first, [-first]: 0, 0: first }[direction] : first;
        key = head.dataset.key;
        for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
        if (direction) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        sort();
      }));
    }
    text.addEventListener("input", filter);
    only.addEventListener("change", filter);
    byChange.addEventListener("change", sort);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    filter();
  };
  for (const form of document.querySelectorAll("form.filter")) setUpTable(form);

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const forms = [...document.querySelectorAll("form.filter")];
    const form = forms.find((each) => each.getBoundingClientRect().bottom > 0) || forms[0];
    if (!form) return;
    event.preventDefault();
    form.querySelector("input").focus();
  });

  // --- which lines belong together ----------------------------------------------------------------

  // Values are numbered anew when kernels are fused: lines that differ in these numbers alone are
  // partners.
  const shape = (line) => line.replace(/\b_?r?tmp\d+/g, "tmp").trim();
  const MOST_EDITS = 3000;

  // Myers' greedy algorithm, "An O(ND) Difference Algorithm and Its Variations" (1986): pairs of
  // places that are equal.
  const common = (a, b) => {
    const pairs = [];
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) { pairs.push([start, start]); start += 1; }
    let endA = a.length, endB = b.length;
    const tail = [];
    while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA -= 1; endB -= 1; tail.unshift([endA, endB]); }
    const n = endA - start, m = endB - start;
    const most = Math.min(n + m, MOST_EDITS);
    const reach = new Int32Array(2 * most + 3);
    const at = (k) => k + most + 1;
    const trace = [];
    let found = n === 0 || m === 0;
    for (let d = 0; d <= most && !found; d += 1) {
      trace.push(reach.slice(at(-d) - 1, at(d) + 2));
      for (let k = -d; k <= d; k += 2) {
        let x = k === -d || (k !== d && reach[at(k - 1)] < reach[at(k + 1)]) ? reach[at(k + 1)] : reach[at(k - 1)] + 1;
        let y = x - k;
        while (x < n && y < m && a[start + x] === b[start + y]) { x += 1; y += 1; }
        reach[at(k)] = x;
        if (x >= n && y >= m) { found = true; break; }
      }
    }
    const middle = [];
    if (found && n && m) {
      let x = n, y = m;
      for (let d = trace.length - 1; d >= 0; d -= 1) {
        const past = trace[d], place = (k) => past[k + d + 1];
        const k = x - y;
        const down = k === -d || (k !== d && place(k - 1) < place(k + 1));
        const k0 = down ? k + 1 : k - 1;
        const x0 = d ? place(k0) : 0, y0 = d ? x0 - k0 : 0;
        while (x > x0 && y > y0 && x > 0 && y > 0 && a[start + x - 1] === b[start + y - 1]) { x -= 1; y -= 1; middle.unshift([start + x, start + y]); }
        if (d) { x = x0; y = y0; }
      }
    }
    return [...pairs, ...middle, ...tail];
  };

  const tokens = (line) => line.match(/\w+|\s+|[^\w\s]/g) || [];

  // In a block that was replaced, lines that have most words in common stand beside each other.
  const partners = (left, right) => {
    if (left.length * right.length > 4000) return [];
    const bags = [left, right].map((lines) => lines.map((line) => new Set(tokens(shape(line)).filter((t) => t.trim()))));
    const alike = (i, j) => {
      const [one, two] = [bags[0][i], bags[1][j]];
      let both = 0;
      for (const word of one) both += two.has(word);
      const share = 2 * both / (one.size + two.size || 1);
      return share > 0.5 ? share : 0;
    };
    const best = Array.from({ length: left.length + 1 }, () => new Float64Array(right.length + 1));
    for (let i = left.length - 1; i >= 0; i -= 1) {
      for (let j = right.length - 1; j >= 0; j -= 1) {
        const likeness = alike(i, j);
        best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], likeness ? likeness + best[i + 1][j + 1] : 0);
      }
    }
    const pairs = [];
    for (let i = 0, j = 0; i < left.length && j < right.length;) {
      const likeness = alike(i, j);
      if (likeness && best[i][j] === likeness + best[i + 1][j + 1]) { pairs.push([i, j]); i += 1; j += 1; }
      else if (best[i][j] === best[i + 1][j]) i += 1;
      else j += 1;
    }
    return pairs;
  };

  // Rows of [line at the left, line at the right]; null where there is none.
  const aligned = (left, right) => {
    const pairs = [...common(left.map(shape), right.map(shape)), [left.length, right.length]];
    const rows = [];
    let i = 0, j = 0;
    const gap = (endI, endJ) => {
      const inner = partners(left.slice(i, endI), right.slice(j, endJ)).map(([a, b]) => [a + i, b + j]);
      for (const [a, b] of [...inner, [endI, endJ]]) {
        while (i < a) rows.push([i++, null]);
        while (j < b) rows.push([null, j++]);
        if (a < endI && b < endJ) rows.push([i++, j++]);
      }
    };
    for (const [a, b] of pairs) {
      gap(a, b);
      if (a < left.length) rows.push([a, b]);
      i = a + 1;
      j = b + 1;
    }
    return rows;
  };

  // --- lines ----------------------------------------------------------------------------------------

  const SYNTAX = /(#.*|\/\/.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(def|for|in|if|else|return|import|from|as|while|static|const|void|auto|int64_t|float|bool)\b/g;
  const coloured = (cell, line) => {
    let last = 0;
    for (const match of line.matchAll(SYNTAX)) {
      cell.append(line.slice(last, match.index), make(match[3] ? "b" : "i", "", match[0]));
      last = match.index + match[0].length;
    }
    cell.append(line.slice(last));
  };
  const marked = (cell, ours, theirs) => {
    const [mine, other] = [tokens(ours), tokens(theirs)];
    const kept = new Set(common(mine, other).map(([place]) => place));
    let mark = null;
    mine.forEach((token, place) => {
      if (kept.has(place)) { mark = null; cell.append(token); return; }
      if (!mark) cell.append(mark = make("mark"));
      mark.append(token);
    });
  };

  const NAMES = ["LDG", "STG", "LDL", "STL"];
  const written = (counts) => counts.map((n) => String(n || "").padStart(4)).join("");
  const sourceOf = (key) => {
    const kernel = data.kernels[key];
    const text = kernel && kernel.text !== null ? data.texts[kernel.text] : null;
    return text === null || text === undefined ? null : { ...kernel, lines: text.split("\n"), counts: kernel.lines };
  };
  const hasCounts = (source) => Object.keys(source.counts).length > 0;
  const numbered = (row, source, place, look) => {
    const counts = place === null ? null : source.counts[place + 1];
    const spills = counts && (counts[2] || counts[3]);
    if (hasCounts(source)) {
      const gutter = make("td", spills ? "gutter spill" : "gutter", counts ? written(counts) : "");
      if (counts) gutter.title = counts.map((n, at) => `${n} ${NAMES[at]}`).join(", ");
      row.append(gutter);
    }
    row.append(make("td", `nr ${look}`, place === null ? "" : place + 1));
    return spills;
  };
  const header = (sources) => {
    const row = make("tr");
    for (const source of sources) {
      if (hasCounts(source)) row.append(make("th", "gutter", NAMES.map((n) => n.padStart(4)).join("")));
      row.append(make("td", "nr"));
      const title = make("th", "", sources.length > 1 ? `${source.side} ${source.number}` : "source");
      title.scope = "col";
      row.append(title);
    }
    const head = make("thead");
    head.append(row);
    return head;
  };
  const listing = (source) => {
    const table = make("table", "code");
    const body = make("tbody");
    source.lines.forEach((line, place) => {
      const row = make("tr");
      if (numbered(row, source, place, "")) row.className = "spill";
      const cell = make("td", "text");
      coloured(cell, line);
      row.append(cell);
      body.append(row);
    });
    table.append(header([source]), body);
    return table;
  };

  const AROUND = 4, LEAST_FOLDED = 6, LONG = 300;
  const diffRow = (left, right, i, j) => {
    const row = make("tr");
    const ours = i === null ? null : left.lines[i], theirs = j === null ? null : right.lines[j];
    const equal = ours === theirs;
    const side = (source, place, line, other, look) => {
      const kind = equal ? "" : line === null ? "none" : look;
      numbered(row, source, place, kind);
      const cell = make("td", `text ${kind}`);
      const long = line !== null && line.length > LONG;
      const into = long ? make("div", "clamped") : cell;
      if (line !== null) {
        if (equal) coloured(into, line);
        else if (other === null) into.textContent = line;
        else marked(into, line, other);
      }
      if (long) cell.append(into, button("whole line", "whole", () => row.classList.toggle("open")));
      row.append(cell);
    };
    side(left, i, ours, theirs, "del");
    row.lastChild.classList.add("left");
    side(right, j, theirs, ours, "add");
    if (!equal) row.dataset.change = "";
    return row;
  };
  const diff = (left, right) => {
    const rows = aligned(left.lines, right.lines);
    const equal = rows.map(([i, j]) => i !== null && j !== null && left.lines[i] === right.lines[j]);
    const table = make("table", "code diff");
    const body = make("tbody");
    const columns = 4 + hasCounts(left) + hasCounts(right);
    const drawn = (from, to) => rows.slice(from, to).map(([i, j]) => diffRow(left, right, i, j));
    for (let at = 0; at < rows.length;) {
      let end = at;
      while (end < rows.length && equal[end] === equal[at]) end += 1;
      const from = at + (at ? AROUND : 0), to = end - (end < rows.length ? AROUND : 0);
      if (equal[at] && to - from >= LEAST_FOLDED) {
        const fold = make("tr", "fold");
        const cell = make("td");
        cell.colSpan = columns;
        cell.append(button(`… ${to - from} equal lines`, "", () => fold.replaceWith(...drawn(from, to))));
        fold.append(cell);
        body.append(...drawn(at, from), fold, ...drawn(to, end));
      } else {
        body.append(...drawn(at, end));
      }
      at = end;
    }
    table.append(header([left, right]), body);
    return table;
  };

  // --- a kernel's page --------------------------------------------------------------------------------

  const chooser = (keys, chosen, name, act) => {
    if (keys.length < 2) return null;
    const select = make("select");
    select.setAttribute("aria-label", name);
    for (const key of keys) {
      const { number, name: title } = data.kernels[key];
      select.append(new Option(`${number} ${title}`, key, key === chosen, key === chosen));
    }
    select.addEventListener("change", () => act(select.value));
    return select;
  };

  const fill = (article, wanted) => {
    const place = article.querySelector(".source");
    const keys = article.dataset.kernels.trim().split(" ");
    const of = (side) => keys.filter((key) => data.kernels[key].side === side);
    let [left, right] = article.dataset.pair.split(" ");
    if (wanted && data.kernels[wanted]) {
      if (data.kernels[wanted].side === "base") left = wanted; else right = wanted;
    }
    let view = left && right ? "diff" : left ? "base" : "head";
    const draw = () => {
      const [ours, theirs] = [sourceOf(left), sourceOf(right)];
      const bar = make("div", "views");
      const box = make("div", "listing");
      box.tabIndex = 0;
      const views = left && right ? [["diff", "Side by side"], ["base", "Base"], ["head", "Head"]] : [];
      for (const [name, title] of views) {
        const each = button(title, "", () => { view = name; draw(); bar.isConnected || place.querySelector(`[data-view=${name}]`).focus(); });
        each.dataset.view = name;
        each.setAttribute("aria-pressed", String(view === name));
        bar.append(each);
      }
      const choosers = [
        chooser(of("base"), left, "kernel of the base", (key) => { left = key; draw(); }),
        chooser(of("head"), right, "kernel of the head", (key) => { right = key; draw(); }),
      ];
      bar.append(...choosers.filter(Boolean));
      const shown = { diff: [ours, theirs], base: [ours], head: [theirs] }[view];
      const missing = shown.some((source) => source === null);
      if (missing) box.append(make("p", "note", "The run did not keep this kernel's source."));
      else if (view === "diff") {
        const table = diff(ours, theirs);
        if (!table.querySelector("[data-change]")) bar.append(make("span", "note", "the same text on both sides"));
        box.append(table);
      } else box.append(listing(shown[0]));
      place.replaceChildren(make("h3", "", "Source"), bar, box);
    };
    draw();
  };

  const near = (article, step) => {
    const row = document.querySelector(`tr[data-page="${article.id}"]`);
    if (!row) return null;
    const rows = [...row.parentElement.rows].filter((each) => !each.hidden || each === row);
    const other = rows[rows.indexOf(row) + step];
    return other ? other.querySelector("a").getAttribute("href") : null;
  };
  const isPage = () => {
    const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    return found ? found.closest("article.kernel") : null;
  };
  const put = (article) => {
    const old = dialog.querySelector("article.kernel");
    if (old && old !== article) { old.querySelector(".source").replaceChildren(); document.body.append(old); }
    const bar = make("div", "panel-bar");
    for (const [step, title] of [[-1, "← Previous"], [1, "Next →"]]) {
      const to = near(article, step);
      const each = button(title, "", () => { location.hash = to; });
      each.disabled = !to;
      bar.append(each);
    }
    bar.append(button("Close", "close", () => dialog.close()));
    dialog.replaceChildren(bar, article);
    dialog.setAttribute("aria-label", article.querySelector("h2").textContent.trim());
    const wanted = location.hash.slice(1);
    for (const title of article.querySelectorAll(".title")) title.classList.toggle("now", title.id === wanted);
    fill(article, wanted);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    bar.querySelector(".close").focus({ preventScroll: true });
  };
  const route = () => {
    const article = isPage();
    if (article) put(article);
    else if (dialog.open) dialog.close();
  };
  dialog.addEventListener("close", () => {
    if (!isPage()) return;
    try {
      history.pushState(null, "", location.href.split("#")[0]);
    } catch {
      location.hash = "";  // a browser that lets files have no history
    }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  addEventListener("hashchange", route);
  addEventListener("load", () => { dialog.scrollTop = 0; });  // browsers scroll to what is named
  addEventListener("popstate", route);
  route();
})();
