"""Edits that change no kernel for the worse: the gate has to let them pass."""

from __future__ import annotations

from gate_planted_edit import Change, Edit, edit

MODEL, ENCODER, SAMPLING, QUANTISE = "model.py", "encoder.py", "sampling.py", "quantise.py"


def _renamed(name: str, what: str, *renames: tuple[str, str], changes: tuple[Change, ...]) -> Edit:
    return Edit(name, what, changes, renames=renames)


def _harmless(name: str, what: str, file: str, *pairs: str) -> Edit:
    return edit(name, what, "", file, *pairs)


HARMLESS = (
    _harmless(
        "rename-variable",
        "Scores are called similarity",
        ENCODER,
        "        scores = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5\n"
        "        weights = torch.softmax(scores + bias, dim=-1)\n",
        "        similarity = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5\n"
        "        weights = torch.softmax(similarity + bias, dim=-1)\n",
    ),
    _harmless(
        "rename-function",
        "Rename the function that is compiled",
        SAMPLING,
        "def weights(logits, bias, temperature):",
        "def token_weights(logits, bias, temperature):",
        "    return weights, (logits",
        "    return token_weights, (logits",
    ),
    _harmless(
        "rename-class",
        "Rename the encoder's layer",
        ENCODER,
        "class Layer(nn.Module):",
        "class TransformerLayer(nn.Module):",
        "nn.ModuleList(Layer() for _ in range(2))",
        "nn.ModuleList(TransformerLayer() for _ in range(2))",
    ),
    _harmless(
        "rename-attribute",
        "Rename a layer's projections",
        ENCODER,
        "        self.widen = nn.Linear(WIDTH, 4 * WIDTH)\n"
        "        self.narrow = nn.Linear(4 * WIDTH, WIDTH)\n",
        "        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)\n"
        "        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)\n",
        'self.narrow(F.gelu(self.widen(self.second_norm(x)), approximate="tanh"))',
        'self.fc2(F.gelu(self.fc1(self.second_norm(x)), approximate="tanh"))',
    ),
    _harmless(
        "rename-blocks",
        "Blocks are called layers",
        MODEL,
        "self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))",
        "self.layers = nn.ModuleList(Block() for _ in range(LAYERS))",
        "        for block in self.blocks:\n            x = block(",
        "        for layer in self.layers:\n            x = layer(",
    ),
    _harmless(
        "rename-method",
        "features becomes hidden_states",
        MODEL,
        "    def features(self, tokens):",
        "    def hidden_states(self, tokens):",
        "self.head(self.features(tokens))",
        "self.head(self.hidden_states(tokens))",
    ),
    _harmless(
        "comments",
        "Explain the quantiser",
        QUANTISE,
        "    values = x.float()\n    scale",
        "    # Half precision has too few digits for a scale.\n"
        "    values = x.float()\n\n"
        "    # One step of the scale is the largest value over the number of levels.\n"
        "    scale",
    ),
    _harmless(
        "docstrings",
        "Document the training step",
        MODEL,
        "class RMSNorm(nn.Module):\n",
        'class RMSNorm(nn.Module):\n    """Of the mean square alone, with a weight."""\n\n',
        "    def features(self, tokens):\n",
        '    def features(self, tokens):\n        """What the head reads."""\n',
        "        logits = 30.0 * torch.tanh(logits / 30.0)\n",
        "        # No logit is beyond 30.\n        logits = 30.0 * torch.tanh(logits / 30.0)\n",
    ),
    _harmless(
        "type-hints",
        "Annotate the sampler",
        SAMPLING,
        "def weights(logits, bias, temperature):",
        "def weights(\n"
        "    logits: torch.Tensor, bias: torch.Tensor, temperature: float\n"
        ") -> torch.Tensor:",
    ),
    _harmless(
        "shifted-lines",
        "Add a licence's header",
        MODEL,
        '"""A small language model',
        "# Copyright the team.\n" + "#\n" * 20 + '"""A small language model',
    ),
    _harmless(
        "reordered-classes",
        "The layer comes after the encoder",
        ENCODER,
        "def pooled(x, present):\n"
        '    """The mean over the words that are there, of length one."""\n'
        "    weight = present[:, :, None].to(x.dtype)\n"
        "    mean = (x * weight).sum(1) / weight.sum(1)\n"
        "    return F.normalize(mean.float(), dim=-1)\n\n\n",
        "",
        "class Layer(nn.Module):",
        "def pooled(x, present):\n"
        "    weight = present[:, :, None].to(x.dtype)\n"
        "    mean = (x * weight).sum(1) / weight.sum(1)\n"
        "    return F.normalize(mean.float(), dim=-1)\n\n\n"
        "class Layer(nn.Module):",
    ),
    _harmless(
        "reordered-attributes",
        "Norms first, then projections",
        ENCODER,
        "        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)\n"
        "        self.out = nn.Linear(WIDTH, WIDTH)\n"
        "        self.second_norm = nn.LayerNorm(WIDTH)\n",
        "        self.second_norm = nn.LayerNorm(WIDTH)\n"
        "        self.out = nn.Linear(WIDTH, WIDTH)\n"
        "        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)\n",
    ),
    _harmless(
        "reordered-parameters",
        "The head is made before the embedding",
        MODEL,
        "        self.embedding = nn.Embedding(VOCABULARY, DIM)\n",
        "        self.head = nn.Linear(DIM, VOCABULARY, bias=False)\n"
        "        self.embedding = nn.Embedding(VOCABULARY, DIM)\n",
        "        self.norm = RMSNorm(DIM)\n"
        "        self.head = nn.Linear(DIM, VOCABULARY, bias=False)\n",
        "        self.norm = RMSNorm(DIM)\n",
    ),
    _harmless(
        "reordered-lines",
        "Keys are rotated before queries",
        MODEL,
        "        q = rotate(q, cos, sin)\n        k = rotate(k, cos, sin)\n",
        "        k = rotate(k, cos, sin)\n        q = rotate(q, cos, sin)\n",
    ),
    Edit(
        "move-helper",
        "Statistics have a file of their own",
        (
            Change(
                QUANTISE,
                "def statistics(x):\n"
                '    """Per channel: the largest magnitude and the root of the mean square."""\n'
                "    values = x.view(-1, CHANNELS).float()\n"
                "    return values.abs().amax(dim=0), values.square().mean(dim=0).sqrt()\n",
                "from numbers_of import statistics  # noqa: E402\n",
            ),
            Change(
                "numbers_of.py",
                "",
                "CHANNELS = 4096\n\n\n"
                "def statistics(x):\n"
                "    values = x.view(-1, CHANNELS).float()\n"
                "    return values.abs().amax(dim=0), values.square().mean(dim=0).sqrt()\n",
            ),
        ),
    ),
    _harmless(
        "extract-function",
        "A function for the sampler's scaling",
        SAMPLING,
        "def weights(logits, bias, temperature):\n"
        "    scaled = logits.float() / temperature + bias\n",
        "def scale(logits, bias, temperature):\n"
        "    return logits.float() / temperature + bias\n\n\n"
        "def weights(logits, bias, temperature):\n"
        "    scaled = scale(logits, bias, temperature)\n",
    ),
    _harmless(
        "inline-function",
        "Put the sampler into one line",
        SAMPLING,
        "    scaled = logits.float() / temperature + bias\n"
        "    return torch.softmax(scaled, dim=-1)\n",
        "    return torch.softmax(logits.float() / temperature + bias, dim=-1)\n",
    ),
    _harmless(
        "same-method",
        "Call softmax as a method",
        SAMPLING,
        "torch.softmax(scaled, dim=-1)",
        "scaled.softmax(-1)",
    ),
    _harmless(
        "swapped-factors",
        "The weight stands first",
        MODEL,
        "return (x32 * scale).to(x.dtype) * self.weight",
        "return self.weight * (x32 * scale).to(x.dtype)",
    ),
    _harmless(
        "unused-function",
        "Add a greedy sampler that nobody calls",
        SAMPLING,
        "def sampler():",
        "def greedy(logits):\n    return logits.argmax(-1)\n\n\ndef sampler():",
    ),
    _harmless(
        "unused-class",
        "Add LayerNorm without a bias, for later",
        MODEL,
        "def rotary_tables(length, dim):",
        "class PlainNorm(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return F.layer_norm(x, x.shape[-1:])\n\n\n"
        "def rotary_tables(length, dim):",
    ),
    _harmless(
        "logging-outside",
        "Log what is quantised",
        QUANTISE,
        '    """Do all multiprocessors take part, and is each value read as seldom as it was?"""\n',
        '    """Do all multiprocessors take part, and is each value read as seldom as it was?"""\n'
        '    print(f"{CHANNELS} channels")\n',
    ),
    _harmless(
        "assertion",
        "Check shapes",
        QUANTISE,
        "    values = x.view(-1, CHANNELS).float()\n",
        '    assert x.numel() % CHANNELS == 0, f"{x.numel()} values"\n'
        "    values = x.view(-1, CHANNELS).float()\n",
    ),
    _harmless(
        "sequential",
        "The MLP's first half as nn.Sequential",
        ENCODER,
        "        self.widen = nn.Linear(WIDTH, 4 * WIDTH)\n",
        '        self.widen = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"))\n',
        'F.gelu(self.widen(self.second_norm(x)), approximate="tanh")',
        "self.widen(self.second_norm(x))",
    ),
    _harmless(
        "configuration-object",
        "Widths in a dataclass",
        ENCODER,
        "import torch\nimport torch.nn.functional",
        "from dataclasses import dataclass\n\nimport torch\nimport torch.nn.functional",
        "WIDTH = 768\n",
        "\n\n@dataclass(frozen=True)\nclass Sizes:\n    width: int = 768\n\n\n"
        "WIDTH = Sizes().width\n",
    ),
    _harmless(
        "named-arguments",
        "Named arguments",
        MODEL,
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "F.scaled_dot_product_attention(query=q, key=k, value=v, is_causal=True)",
    ),
    Edit(
        "rename-file",
        "The encoder's file is called bert.py",
        (Change("pyproject.toml", '"encoder.py:embedding"', '"bert.py:embedding"'),),
        renames=((ENCODER, "bert.py"),),
    ),
    Edit(
        "move-file",
        "Sampling goes into a folder",
        (Change("pyproject.toml", '"sampling.py:sampler"', '"team/models/sampling.py:sampler"'),),
        renames=((SAMPLING, "team/models/sampling.py"),),
    ),
    Edit(
        "rename-check-function",
        "The scenario's function gets another name",
        (
            Change(QUANTISE, "def activations():", "def activation_statistics():"),
            Change(
                "pyproject.toml", "quantise.py:activations", "quantise.py:activation_statistics"
            ),
        ),
    ),
    Edit(
        "configuration-comments",
        "Comments in the configuration",
        (
            Change(
                "pyproject.toml",
                'fail-on = "warning"\n',
                '# As grave as this.\nfail-on = "warning"\nbaseline-max-age-days = 60\n',
            ),
            Change("pyproject.toml", 'version = "1.0"', 'version = "1.1"'),
        ),
    ),
)
