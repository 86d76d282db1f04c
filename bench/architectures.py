"""Ten architectures of a public model library, with random weights and two layers each.

Each function is a scenario: ``perfcli run bench/architectures.py:llama -p mode=training``.
They need ``pip install transformers`` (seen with 5.17.0) and no network. The language and speech
models are bfloat16 throughout, the vision models float32 under autocast.
"""

from __future__ import annotations

from typing import Any

ARCHITECTURES = (
    "llama",
    "qwen3",
    "gemma3",
    "mixtral",
    "modernbert",
    "t5",
    "whisper",
    "vit",
    "swin",
    "convnext",
)

VOCABULARY = 4096
CLASSES = 1000


def llama(
    batch: int = 4, sequence: int = 1024, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Decoder: grouped queries, rotary positions, gated MLP."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_common(), num_key_value_heads=4, head_dim=64)
    return _language_model(LlamaForCausalLM, config, batch, sequence, dtype, mode)


def qwen3(
    batch: int = 4, sequence: int = 1024, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Decoder: normalised queries and keys."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(**_common(), num_key_value_heads=4, head_dim=64)
    return _language_model(Qwen3ForCausalLM, config, batch, sequence, dtype, mode)


def gemma3(
    batch: int = 4, sequence: int = 1024, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Decoder: a sliding window in one layer, full attention in the other, four norms a block."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        **_common(),
        num_key_value_heads=4,
        head_dim=64,
        sliding_window=sequence // 4,
        layer_types=["sliding_attention", "full_attention"],
    )
    return _language_model(Gemma3ForCausalLM, config, batch, sequence, dtype, mode)


def mixtral(
    batch: int = 4, sequence: int = 1024, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Decoder: a mixture of eight experts, two for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **_common(), num_key_value_heads=4, num_local_experts=8, num_experts_per_tok=2
    )
    return _language_model(MixtralForCausalLM, config, batch, sequence, dtype, mode)


def modernbert(
    batch: int = 4, sequence: int = 1024, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Encoder: alternating local and global attention."""
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    config = ModernBertConfig(
        **_common(),
        local_attention=sequence // 4,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    )
    return _language_model(ModernBertForMaskedLM, config, batch, sequence, dtype, mode)


def t5(batch: int = 4, sequence: int = 512, dtype: str = "bfloat16", mode: str = "forward") -> Any:
    """Encoder and decoder: learned relative positions, cross attention, dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=2,
        num_heads=8,
        decoder_start_token_id=0,
    )
    model = _from_config(T5ForConditionalGeneration, config, dtype, mode)
    inputs = {"input_ids": _tokens(batch, sequence), "use_cache": False}
    # Half as many to write as to read; the model derives the decoder's input from the labels.
    target = _tokens(batch, sequence // 2)
    name = "labels" if mode == "training" else "decoder_input_ids"
    return model, {**inputs, name: target}


def whisper(
    batch: int = 4, sequence: int = 512, dtype: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Speech: convolutions over a spectrogram, encoder, decoder with cross attention."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=512,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        max_source_positions=sequence,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = _from_config(WhisperForConditionalGeneration, config, dtype, mode)
    # The second convolution halves the number of frames.
    sound = torch.randn(batch, config.num_mel_bins, 2 * sequence, dtype=getattr(torch, dtype))
    inputs = {"input_features": sound, "use_cache": False}
    name = "labels" if mode == "training" else "decoder_input_ids"
    return model, {**inputs, name: _tokens(batch, sequence // 4)}


def vit(batch: int = 16, size: int = 224, autocast: str = "bfloat16", mode: str = "forward") -> Any:
    """Vision: patches, global attention."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=size,
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_labels=CLASSES,
    )
    return _classifier(ViTForImageClassification, config, batch, size, autocast, mode)


def swin(
    batch: int = 16, size: int = 224, autocast: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Vision: attention in shifted windows, patches merged between two stages."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=size, embed_dim=96, depths=[2, 2], num_heads=[3, 6], num_labels=CLASSES
    )
    return _classifier(SwinForImageClassification, config, batch, size, autocast, mode)


def convnext(
    batch: int = 16, size: int = 224, autocast: str = "bfloat16", mode: str = "forward"
) -> Any:
    """Vision: wide depthwise convolutions, norms over channels, scaled branches."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(depths=[1, 1, 1, 1], num_labels=CLASSES)
    return _classifier(ConvNextForImageClassification, config, batch, size, autocast, mode)


# --- what they share -----------------------------------------------------------------------------


def _common() -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
    }


def _language_model(
    model_class: Any, config: Any, batch: int, sequence: int, dtype: str, mode: str
) -> Any:
    model = _from_config(model_class, config, dtype, mode)
    inputs: dict[str, Any] = {"input_ids": _tokens(batch, sequence)}
    if hasattr(config, "use_cache"):
        inputs["use_cache"] = False
    if mode == "training":
        inputs["labels"] = _tokens(batch, sequence)
    return model, inputs


def _from_config(model_class: Any, config: Any, dtype: str, mode: str) -> Any:
    import torch

    model = model_class._from_config(config, dtype=getattr(torch, dtype))
    return model.train(mode == "training")


def _tokens(batch: int, sequence: int) -> Any:
    """Token numbers without the special ones at the start of the vocabulary."""
    import torch

    return torch.randint(3, VOCABULARY, (batch, sequence))


def _classifier(
    model_class: Any, config: Any, batch: int, size: int, autocast: str, mode: str
) -> Any:
    """A model with float32 parameters, called under autocast; in training, its loss as well."""
    import torch
    import torch.nn.functional as F

    from perfcli.model import Workload

    model = _from_config(model_class, config, "float32", mode)
    images = torch.randn(batch, 3, size, size)
    ambient = None if autocast == "none" else autocast
    if mode != "training":
        return Workload(model, (images,), autocast=ambient)

    def loss(images: Any, labels: Any) -> Any:
        return F.cross_entropy(model(images).logits, labels)

    labels = torch.randint(0, CLASSES, (batch,))
    return Workload(loss, (images, labels), mode="training", autocast=ambient)
