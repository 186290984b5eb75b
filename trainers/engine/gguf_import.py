"""Reading a Llama model from a GGUF file into plain Hugging Face files.

GGUF stores the query and key projections with their rotary pairs interleaved, and the tokenizer as bare lists; both are
put back into the layout that ``transformers`` expects. Quantised weights are dequantised, so the result carries the
rounding of the quantisation but no trace of the format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL_TOKEN = 3  # gguf.TokenType.CONTROL
_LAYER_WEIGHTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_llama(source: Path, folder: Path) -> dict[str, Any]:
    """Write config, weights (float32 safetensors) and tokenizer of a Llama GGUF file into ``folder``.

    Returns what the file says of itself: ``{"parameters": int, "quantisation": [names of the tensor formats]}``.
    Raises ``ValueError`` for another architecture or tokenizer than the ones read here.
    """
    reader = gguf.GGUFReader(source)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    if meta["general.architecture"] != "llama" or meta["tokenizer.ggml.model"] != "gpt2":
        raise ValueError(f"{source.name} is not a Llama model with a byte-level BPE tokenizer")
    weights = _weights(reader, meta)
    config = _config(meta, tied="lm_head.weight" not in weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(
        folder / "generation_config.json",
        {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")},
    )
    write_tokenizer(folder, meta)
    formats = sorted({tensor.tensor_type.name for tensor in reader.tensors} - {"F32"})
    return {"parameters": sum(weight.numel() for weight in weights.values()), "quantisation": formats}


def _weights(reader: gguf.GGUFReader, meta: dict[str, Any]) -> dict[str, torch.Tensor]:
    heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    weights = {}
    for tensor in reader.tensors:
        value = torch.from_numpy(np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        name = tensor.name
        if ".attn_q." in name or ".attn_k." in name:
            value = _halves_from_pairs(value, heads if ".attn_q." in name else kv_heads)
        weights[_huggingface_name(name)] = value.contiguous()
    return weights


def _halves_from_pairs(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the interleaving of rotary pairs: rows (0, 1), (2, 3) … of a head become its first and second half."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _huggingface_name(name: str) -> str:
    top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    top["output.weight"] = "lm_head.weight"
    if name in top:
        return top[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_LAYER_WEIGHTS[part]}.{kind}"


def _config(meta: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    heads = meta["llama.attention.head_count"]
    hidden = meta["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "hidden_size": hidden,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": round(float(meta["llama.attention.layer_norm_rms_epsilon"]), 12),
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "dtype": "float32",
    }


def write_tokenizer(folder: Path, meta: dict[str, Any]) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``: byte-level BPE, each digit on its own."""
    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    if meta.get("tokenizer.ggml.pre") not in ("smollm", "starcoder"):
        raise ValueError(f"unknown pre-tokenizer {meta.get('tokenizer.ggml.pre')!r}")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = meta["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_tokenizer_config(
        folder,
        bos=tokens[meta["tokenizer.ggml.bos_token_id"]],
        eos=tokens[meta["tokenizer.ggml.eos_token_id"]],
        pad=tokens[meta["tokenizer.ggml.padding_token_id"]],
        chat_template=meta["tokenizer.chat_template"],
        context=meta["llama.context_length"],
    )


def write_tokenizer_config(folder: Path, *, bos: str, eos: str, pad: str, chat_template: str, context: int) -> None:
    """The part of a tokenizer that is not in ``tokenizer.json``."""
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": bos,
            "eos_token": eos,
            "pad_token": pad,
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
            "chat_template": chat_template,
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
