"""A tiny Llama with random weights and a byte-level tokenizer: a real model in every respect but skill, for tests."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from trainers.engine.gguf_import import write_tokenizer_config

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_llama(folder: Path, *, seed: int = 0, context: int = 2048) -> Path:
    """Write the model into ``folder`` and return it. The same seed gives the same bits.

    Two layers, width 32, four heads of which two share keys and values, tied embeddings, 259 tokens: every byte, and
    three special ones. Any text can be encoded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL_TOKENS, *alphabet]
    config = LlamaConfig(  # type: ignore[call-arg]
        vocab_size=len(tokens),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=0.2,  # wide enough that the distributions over tokens are far from uniform
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_tokenizer_config(
        folder,
        bos=SPECIAL_TOKENS[1],
        eos=SPECIAL_TOKENS[2],
        pad=SPECIAL_TOKENS[0],
        chat_template=CHAT_TEMPLATE,
        context=context,
    )
    manifest = {"name": "tiny-random-llama", "origin": f"random weights, seed {seed}", "quantisation": None}
    (folder / "tuneyard.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return folder
