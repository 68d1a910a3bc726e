#!/usr/bin/env python3
"""Writes a tiny random model of each architecture, and what transformers computes with it.

For each model of MODELS, in test/golden/models:

    NAME-f32.gguf, NAME-q8_0.gguf   the model as llama.cpp's converter names and lays out its tensors
    NAME/                           the same weights as transformers saves them
    NAME.json                       ids, greedy ids, logits and pooled hidden states of transformers' own class, eager and in
                                    single precision; for a reranker the logit of a pair of texts

Weights are drawn so that they are the same numbers in F32, F16 and BF16: one reference serves files of the three. The
Q8_0 file has a reference of its own, computed with the weights that it holds, and so have the F32 weights quantised to Q4_0,
as runners do it when they load them. Greedy ids are of models whose logits lie
well apart, so that the order of sums decides nothing.

    python3 -m venv v && v/bin/pip install -r test/golden/requirements.txt && v/bin/python test/golden/make.py [NAME...]

The pooled states alone, of models that are there, are made anew by

    v/bin/python test/golden/make.py vectors

With other weights of GPT-2, RUNNEL_CHECKPOINT_MODEL=FILE.gguf and RUNNEL_CHECKPOINT_REFERENCE=FILE.json point
test/runner/commands/checkpoint_test.cc at them; the latter comes from

    v/bin/python test/golden/make.py checkpoints FOLDER FILE.json 15496 13
"""

import json
import math
import pathlib
import re
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers as hf
from make_tiny_llama import CHAT_TEMPLATE, MERGES, TOKENS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

FOLDER = pathlib.Path(__file__).parent / "models"
VOCAB, HIDDEN, LAYERS, CONTEXT = len(TOKENS), 64, 2, 512
NUM_GREEDY = 64
MIN_MARGIN = 5e-3  # between the largest logit and the next, at every greedy step: an F16 cache moves logits by 5e-4
COMMON = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=1,
              eos_token_id=2, pad_token_id=2)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                original_max_position_embeddings=128, short_factor=[1.0, 1.05, 1.1, 1.2, 1.4, 1.8],
                long_factor=[1.0, 1.3, 2.1, 3.9, 6.5, 9.0])

# Name: transformers' configuration and class, GGUF's architecture, the dtype it is saved in, numbers of prompt ids.
MODELS = {
    # The factors of rope_freqs.weight: pairs that turn fast, slowly, and between the two.
    "llama3": (hf.LlamaConfig(**COMMON, tie_word_embeddings=False, rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)), hf.LlamaForCausalLM, "llama", torch.bfloat16, {"": 40}),
    "mistral": (hf.MistralConfig(**COMMON, tie_word_embeddings=False, sliding_window=20), hf.MistralForCausalLM, "llama",
                torch.float16, {"": 40}),
    "qwen2": (hf.Qwen2Config(**COMMON, tie_word_embeddings=True), hf.Qwen2ForCausalLM, "qwen2", torch.bfloat16, {"": 40}),
    # Heads that are wider than their share of the hidden state.
    "qwen3": (hf.Qwen3Config(**COMMON, head_dim=32, tie_word_embeddings=True), hf.Qwen3ForCausalLM, "qwen3",
              torch.bfloat16, {"": 40}),
    "gpt2": (hf.GPT2Config(vocab_size=VOCAB, n_embd=HIDDEN, n_layer=LAYERS, n_head=4, n_positions=CONTEXT,
                           bos_token_id=0, eos_token_id=0), hf.GPT2LMHeadModel, "gpt2", torch.float16, {"": 40}),
    # Seven layers, the sixth of which sees everything; the query scale is not that of the head's width.
    "gemma3": (hf.Gemma3TextConfig(**{**COMMON, "num_hidden_layers": 7, "intermediate_size": 64}, head_dim=32,
                                   sliding_window=20, query_pre_attn_scalar=32, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=10000.0),
        full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0))), hf.Gemma3ForCausalLM, "gemma3",
               torch.bfloat16, {"": 40}),
    # Three quarters of a head of 16 are rotated. Prompts on both sides of the context that the factors depend on.
    "phi3": (hf.Phi3Config(**COMMON, tie_word_embeddings=False, sliding_window=None, rope_parameters=LONGROPE,
                           original_max_position_embeddings=128),
             hf.Phi3ForCausalLM, "phi3", torch.bfloat16, {"short": 40, "long": 140}),
    "qwen3moe": (hf.Qwen3MoeConfig(**COMMON, head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32,
                                   norm_topk_prob=True, tie_word_embeddings=False, decoder_sparse_step=1),
                 hf.Qwen3MoeForCausalLM, "qwen3moe", torch.bfloat16, {"": 40}),
    # YaRN, with pairs that are scaled by the whole factor, by a part of it and not at all.
    "yarn": (hf.Qwen3Config(**COMMON, head_dim=32, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128)), hf.Qwen3ForCausalLM,
             "qwen3", torch.bfloat16, {"": 40}),
    # Half of a head is rotated.
    "glm4": (hf.Glm4Config(**COMMON, head_dim=16, tie_word_embeddings=False), hf.Glm4ForCausalLM, "glm4",
             torch.bfloat16, {"": 40}),
    # The fourth layer rotates nothing.
    "smollm3": (hf.SmolLM3Config(**{**COMMON, "num_hidden_layers": 5}), hf.SmolLM3ForCausalLM, "smollm3",
                torch.bfloat16, {"": 40}),
    "mixtral": (hf.MixtralConfig(**COMMON, num_local_experts=5, num_experts_per_tok=2), hf.MixtralForCausalLM, "llama",
                torch.bfloat16, {"": 40}),
    "granite": (hf.GraniteConfig(**COMMON, embedding_multiplier=12.0, residual_multiplier=0.22,
                                 attention_multiplier=0.15, logits_scaling=3.0, tie_word_embeddings=False),
                hf.GraniteForCausalLM, "granite", torch.bfloat16, {"": 40}),
    "olmo2": (hf.Olmo2Config(**COMMON, tie_word_embeddings=False), hf.Olmo2ForCausalLM, "olmo2", torch.bfloat16, {"": 40}),
    # Every second layer sees everything; the caps are near what they cap.
    "gemma2": (hf.Gemma2Config(**{**COMMON, "num_hidden_layers": 7, "intermediate_size": 64}, head_dim=32,
                               sliding_window=20, query_pre_attn_scalar=32, attn_logit_softcapping=2.0,
                               final_logit_softcapping=4.0), hf.Gemma2ForCausalLM, "gemma2", torch.bfloat16, {"": 40}),
    # Every second layer sees everything, from the second on. The pairs that YaRN scales begin and end between whole ones.
    "gpt-oss": (hf.GptOssConfig(**{**COMMON, "num_hidden_layers": 3}, head_dim=32, num_local_experts=5,
                                num_experts_per_tok=2, sliding_window=20, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=8.0, beta_slow=1.0, truncate=False,
        original_max_position_embeddings=128)), hf.GptOssForCausalLM, "gpt-oss", torch.bfloat16, {"": 40}),
}
# Encoders, of which there are vectors alone. 300 ids are more than attention takes at once.
ENCODERS = {
    "bert": (hf.BertConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
                           num_attention_heads=4, max_position_embeddings=CONTEXT), hf.BertModel, "bert", torch.float16,
             {"": 300}),
    # Positions begin behind that of padding, so the table has two rows that no text uses. One type of tokens.
    "roberta": (hf.XLMRobertaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
                                    num_attention_heads=4, max_position_embeddings=CONTEXT + 2, type_vocab_size=1,
                                    pad_token_id=1, layer_norm_eps=1e-5), hf.XLMRobertaModel, "bert", torch.float16,
                {"": 300}),
    "nomic-bert": (hf.NomicBertConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
                                      num_attention_heads=4, head_dim=16, max_position_embeddings=CONTEXT),
                   hf.NomicBertModel, "nomic-bert", torch.float16, {"": 300}),
}
# gguf's names for those of transformers' class, which are not those of the original.
NOMIC = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
         "embeddings.LayerNorm": "token_embd_norm", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_attention_layernorm": "attn_output_norm",
         "post_mlp_layernorm": "layer_output_norm"}
# Encoders with classification heads: the logit of a pair of texts. llama.cpp's converter leaves out BERT's pooler.
RERANKERS = {
    "bert-rank": (hf.BertConfig, hf.BertForSequenceClassification, {"type_vocab_size": 2}, False),
    "roberta-rank": (hf.XLMRobertaConfig, hf.XLMRobertaForSequenceClassification,
                     {"type_vocab_size": 1, "max_position_embeddings": 65, "pad_token_id": 0}, True),
}
PAIR = ["Where is it?", "It is here."]
# As llama.cpp's converter does for these, rows of queries and keys are permuted.
HAS_NEIGHBOURS = ("llama", "granite", "smollm3")


# --- weights ------------------------------------------------------------------------------------------------------


def in_all_float_types(values):
    """To the nearest numbers that F32, BF16 and F16 have."""
    rounded = values.to(torch.bfloat16).to(torch.float32)
    return torch.round(rounded * 2.0**21) / 2.0**21 if rounded.abs().max() < 4 else rounded


def is_transposed(model):
    """Whether experts are (experts, inputs, outputs), with the outputs of gate and up in turn."""
    return model.config.model_type == "gpt_oss"


def draw_weights(model, seed):
    generator = torch.Generator().manual_seed(seed)
    is_gemma = "Gemma" in type(model).__name__
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("gate_up_proj_bias") and is_transposed(model):
            values = 3.0 * noise  # some of the sums are clamped
        elif name.endswith("bias"):
            values = 0.3 * noise
        elif name.endswith("sinks"):
            values = noise
        elif name.endswith("experts.gate_up_proj") and is_transposed(model):
            values = noise / math.sqrt(weight.shape[1])
        elif name.endswith("experts.down_proj") and is_transposed(model):
            values = 0.2 * noise / math.sqrt(weight.shape[1])
        elif "norm" in name.lower() or ".ln_" in name:
            values = 0.1 * noise + (0.0 if is_gemma else 1.0)
        elif "Conv1D" in type(model.get_submodule(name.rpartition(".")[0])).__name__:
            values = noise / math.sqrt(weight.shape[0])
        elif "router" in name or name.endswith("mlp.gate.weight"):
            values = 3.0 * noise / math.sqrt(weight.shape[-1])
        else:
            values = noise / math.sqrt(weight.shape[-1])
        weight.data = in_all_float_types(values)
    model.tie_weights()


# --- GGUF ---------------------------------------------------------------------------------------------------------


def permuted(weight, num_heads):
    """Rows of queries or keys of llama, so that the two values of a rotated pair are neighbours."""
    rows = weight.shape[0] // num_heads // 2
    return weight.reshape(num_heads, 2, rows, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def gguf_tensors(model, architecture):
    """(GGUF's name, array with columns last) for each tensor of the model."""
    config = model.config
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[architecture], config.num_hidden_layers)
    tied = config.tie_word_embeddings
    for name, parameter in model.state_dict().items():
        name = name.removeprefix("roberta.")
        if tied and name == "lm_head.weight" or name.startswith("pooler."):
            continue
        weight = parameter.float().numpy()
        if name.endswith("position_embeddings.weight"):
            weight = weight[-(len(weight) // 32 * 32):]  # without those up to padding
        if architecture == "gpt2" and re.search(r"(c_attn|c_proj|c_fc)\.weight$", name):
            weight = weight.T  # transformers keeps them as (inputs, outputs)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            weight = weight + 1
        if architecture in HAS_NEIGHBOURS and ".q_proj." in name:
            weight = permuted(weight, config.num_attention_heads)
        if architecture in HAS_NEIGHBOURS and ".k_proj." in name:
            weight = permuted(weight, config.num_key_value_heads)
        if architecture == "nomic-bert":
            _, layer, part, kind = re.match(r"(layers\.(\d+)\.)?(.+)\.(weight|bias)$", name).groups()
            if part in ("self_attn.k_proj", "self_attn.v_proj"):
                continue
            if part == "self_attn.q_proj":
                attention = model.layers[int(layer)].self_attn
                projections = (attention.q_proj, attention.k_proj, attention.v_proj)
                weight = np.concatenate([one.weight.detach().float().numpy() for one in projections])
            yield f"blk.{layer}." * (layer is not None) + f"{NOMIC.get(part, 'attn_qkv')}.{kind}", weight
            continue
        parts = {name: weight}
        if is_transposed(model) and ".experts." in name:
            stem, kind = (name.removesuffix("_bias"), ".bias") if name.endswith("_bias") else (name, ".weight")
            rows = weight if kind == ".bias" else weight.swapaxes(1, 2)
            parts = {stem + kind: rows}
            if "gate_up" in stem:
                parts = {stem.replace("gate_up", "gate") + kind: rows[:, ::2],
                         stem.replace("gate_up", "up") + kind: rows[:, 1::2]}
        elif name.endswith("sinks"):
            parts = {name + ".weight": weight}
        elif name.endswith("experts.gate_up_proj"):
            half = weight.shape[1] // 2
            base = name.removesuffix("gate_up_proj")
            parts = {base + "gate_proj.weight": weight[:, :half], base + "up_proj.weight": weight[:, half:]}
        elif name.endswith("experts.down_proj"):
            parts = {name + ".weight": weight}
        for part, array in parts.items():
            mapped = names.get_name(part, try_suffixes=(".weight", ".bias"))
            assert mapped, part
            yield mapped, np.ascontiguousarray(array)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        dim = HIDDEN // config.num_attention_heads
        default = 1.0 / rope["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        yield "rope_freqs.weight", (default / model.model.rotary_emb.inv_freq).numpy()
    if rope.get("rope_type") == "longrope":
        for length in ("long", "short"):
            yield f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32)


def write_metadata(out, name, config, architecture):
    out.add_name(f"Tiny {name}")
    out.add_block_count(config.num_hidden_layers)
    out.add_context_length(64 if name in RERANKERS else CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_head_count(config.num_attention_heads)
    out.add_vocab_size(VOCAB)
    if architecture == "gpt2":
        out.add_feed_forward_length(4 * HIDDEN)
        out.add_layer_norm_eps(config.layer_norm_epsilon)
    elif architecture.endswith("bert"):
        if architecture == "nomic-bert":
            out.add_rope_freq_base(config.rope_parameters["rope_theta"])
        out.add_feed_forward_length(config.intermediate_size)
        out.add_layer_norm_eps(config.layer_norm_eps)
        out.add_causal_attention(False)
        out.add_pooling_type(gguf.PoolingType.RANK if name in RERANKERS else gguf.PoolingType.MEAN)
    else:
        rope = config.rope_parameters
        rope = rope.get("full_attention", rope)
        out.add_feed_forward_length(config.intermediate_size)
        out.add_head_count_kv(config.num_key_value_heads)
        out.add_layer_norm_rms_eps(config.rms_norm_eps)
        out.add_rope_freq_base(rope["rope_theta"])
        if architecture in ("qwen3", "qwen3moe", "gemma2", "gemma3", "glm4", "gpt-oss"):
            out.add_key_length(config.head_dim)
            out.add_value_length(config.head_dim)
        if architecture in ("llama", "phi3", "glm4"):
            out.add_rope_dimension_count(int(rope.get("partial_rotary_factor", 1.0) * HIDDEN) // config.num_attention_heads)
        if getattr(config, "sliding_window", None) or architecture == "phi3":
            out.add_sliding_window(config.sliding_window or 0)
        if rope["rope_type"] == "linear":
            out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            out.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            out.add_rope_scaling_factor(rope["factor"])
            out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if "beta_fast" in rope:
                out.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
                out.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if rope["rope_type"] == "longrope":
            original = rope["original_max_position_embeddings"]
            out.add_rope_scaling_orig_ctx_len(original)
            out.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(CONTEXT / original) / math.log(original)))
    if architecture == "granite":
        out.add_embedding_scale(config.embedding_multiplier)
        out.add_residual_scale(config.residual_multiplier)
        out.add_attention_scale(config.attention_multiplier)
        out.add_logit_scale(config.logits_scaling)
    if architecture == "gemma2":
        out.add_attn_logit_softcapping(config.attn_logit_softcapping)
        out.add_final_logit_softcapping(config.final_logit_softcapping)
    if getattr(config, "num_experts", 0):
        out.add_expert_count(config.num_experts)
        out.add_expert_used_count(config.num_experts_per_tok)
    if architecture == "qwen3moe":
        out.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "gpt-oss":
        out.add_expert_feed_forward_length(config.intermediate_size)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(TOKENS)
    out.add_token_types([3] * 3 + [1] * (VOCAB - 3))
    out.add_token_merges(MERGES)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_add_bos_token(False)
    out.add_chat_template(CHAT_TEMPLATE)


def stays_f32(name, array):
    """As in converted files."""
    return array.ndim == 1 or name.endswith("bias") or any(part in name for part in (
        "position_embd", "token_types", "ffn_gate_inp", "wpe", "mlp.gate.weight", "mlp.router.weight", "position_emb",
        "token_type_emb"))


def write_gguf(path, name, model, architecture, kind):
    out = gguf.GGUFWriter(path, architecture)
    write_metadata(out, name, model.config, architecture)
    for tensor, array in gguf_tensors(model, architecture):
        if kind == gguf.GGMLQuantizationType.F32 or stays_f32(tensor, array):
            out.add_tensor(tensor, array.astype(np.float32))
        else:
            quantised = gguf.quantize(array, kind)
            assert np.array_equal(gguf.dequantize(quantised, kind), array)
            out.add_tensor(tensor, quantised, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def quantise_weights(model, kind):
    """Gives the model the weights that a file of this kind holds."""
    for name, weight in model.named_parameters():
        array = weight.data.numpy()
        if stays_f32(name, array):
            continue
        is_by_columns = "Conv1D" in type(model.get_submodule(name.rpartition(".")[0])).__name__ or (
            is_transposed(model) and ".experts." in name)
        array = np.ascontiguousarray(array.swapaxes(-1, -2) if is_by_columns else array)
        held = gguf.dequantize(gguf.quantize(array, kind), kind)
        weight.data = torch.from_numpy(np.ascontiguousarray(held.swapaxes(-1, -2) if is_by_columns else held))
    model.tie_weights()


# --- what transformers computes -----------------------------------------------------------------------------------


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt):
    """The ids, and how far the largest logit was from the next at the worst of them."""
    ids, margin = list(prompt), math.inf
    for _ in range(NUM_GREEDY):
        (best, second), (token, _) = logits_of(model, ids)[-1].topk(2)
        margin = min(margin, float(best - second))
        ids.append(int(token))
    return ids[len(prompt):], margin


def rows_of(logits, positions):
    return [[round(float(value), 6) for value in logits[position]] for position in positions]


def vectors_of(model, ids):
    """Of all these ids: what the last norm gives, pooled, not scaled to a length."""
    with torch.no_grad():
        states = model.base_model(torch.tensor([ids]), use_cache=False).last_hidden_state[0]
    pooled = {"last": states[-1], "mean": states.mean(dim=0), "cls": states[0]}
    return {name: [round(float(value), 6) for value in vector] for name, vector in pooled.items()}


def golden_of(model, quantised, prompt):
    """quantised: the model with the weights of each kind of file.
    None where two logits are too near each other."""
    greedy_ids, margin = greedy(model, prompt)
    if margin < MIN_MARGIN or len(set(greedy_ids)) < 4:
        return None
    ids = [*prompt, *greedy_ids]
    positions = sorted({0, 1, 31, 32, 63, len(prompt) - 1, len(ids) - 1})
    return {"prompt": prompt, "greedy": greedy_ids, "positions": positions,
            "vectors": vectors_of(model, ids), "logits": rows_of(logits_of(model, ids), positions),
            **{f"logits_{kind}": rows_of(logits_of(one, ids), positions) for kind, one in quantised.items()}}


# --- GPT-2 step by step -------------------------------------------------------------------------------------------


def gpt2_checkpoints(model, ids):
    """What the first block computes of these ids, by hooks: name -> (shape, values)."""
    seen = {}

    def keep(name):
        def hook(_module, _inputs, output):
            seen[name] = output[0] if isinstance(output, tuple) else output
        return hook

    block = model.transformer.h[0]
    hooks = [module.register_forward_hook(keep(name)) for name, module in [
        ("norm", block.ln_1), ("qkv", block.attn.c_attn), ("attention", block.attn.c_proj), ("ffn_norm", block.ln_2),
        ("gated", block.mlp.act), ("ffn", block.mlp.c_proj), ("block", block)]]
    with torch.no_grad():
        out = model(torch.tensor([ids]), use_cache=False, output_attentions=True)
    for hook in hooks:
        hook.remove()
    hidden, heads = model.config.n_embd, model.config.n_head
    dim = hidden // heads
    q, k, v = (part.reshape(len(ids), heads, dim) for part in seen.pop("qkv")[0].split(hidden, dim=-1))
    seen = {name: value[0] for name, value in seen.items()}
    seen |= {"q": q, "k": k, "v": v, "scores": torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(dim),
             "probabilities": out.attentions[0][0], "logits": out.logits[0]}
    for temperature in (0.5, 0.8, 1.0, 2.0):
        seen[f"softmax_{temperature}"] = torch.softmax(out.logits[0, -1] / temperature, dim=-1)
    return {"ids": ids, "tensors": {name: {"shape": list(value.shape), "values": [float(f"{x:.9g}") for x in
                                                                                    value.flatten().tolist()]}
                                    for name, value in seen.items()}}


# --- a folder -----------------------------------------------------------------------------------------------------


def write_tokenizer(folder):
    vocabulary = {token: index for index, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in MERGES]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(TOKENS[:3])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": TOKENS[1], "eos_token": TOKENS[2],
        "pad_token": TOKENS[2], "add_bos_token": False, "chat_template": CHAT_TEMPLATE}, indent=2) + "\n")


def make(name):
    config, kind_of_model, architecture, dtype, prompts = MODELS[name]
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    q8_0, f32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
    for seed in range(1, 1000):
        model, *quantised = (kind_of_model(config).float().eval() for _ in range(3))
        for one in (model, *quantised):
            draw_weights(one, seed)
        quantised = {"q8_0": quantised[0], "q4_0": quantised[1]}
        quantise_weights(quantised["q8_0"], q8_0)
        quantise_weights(quantised["q4_0"], gguf.GGMLQuantizationType.Q4_0)
        rng = np.random.default_rng(seed)
        golden = {label: golden_of(model, quantised, rng.integers(0, VOCAB, count).tolist())
                  for label, count in prompts.items()}
        if all(golden.values()):
            break
    else:
        sys.exit(f"{name}: no seed has logits that lie well apart")
    write_gguf(FOLDER / f"{name}-f32.gguf", name, model, architecture, f32)
    write_gguf(FOLDER / f"{name}-q8_0.gguf", name, quantised["q8_0"], architecture, q8_0)
    for label, one in golden.items():
        (FOLDER / f"{'-'.join(filter(None, (name, label)))}.json").write_text(json.dumps(one) + "\n")
    if architecture == "gpt2":
        (FOLDER / "gpt2-checkpoints.json").write_text(json.dumps(gpt2_checkpoints(model, [15, 213])) + "\n")
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    write_tokenizer(folder)
    print(f"{name}: seed {seed}, {sum(p.numel() for p in model.parameters())} parameters")


def make_encoder(name):
    config, kind_of_model, architecture, dtype, prompts = ENCODERS[name]
    config._attn_implementation = "eager"
    model, quantised = (kind_of_model(config).float().eval() for _ in range(2))
    for one in (model, quantised):
        draw_weights(one, 1)
    quantise_weights(quantised, gguf.GGMLQuantizationType.Q8_0)
    write_gguf(FOLDER / f"{name}-f32.gguf", name, model, architecture, gguf.GGMLQuantizationType.F32)
    write_gguf(FOLDER / f"{name}-q8_0.gguf", name, quantised, architecture, gguf.GGMLQuantizationType.Q8_0)
    for label, count in prompts.items():
        # Without padding, which has no position in RoBERTa.
        ids = np.random.default_rng(1).integers(2 if name == "roberta" else 0, VOCAB, count).tolist()
        golden = {"prompt": ids, "vectors": vectors_of(model, ids), "vectors_q8_0": vectors_of(quantised, ids)}
        (FOLDER / f"{'-'.join(filter(None, (name, label)))}.json").write_text(json.dumps(golden) + "\n")
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    write_tokenizer(folder)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters")


def make_reranker(name):
    kind_of_config, kind_of_model, options, has_gguf = RERANKERS[name]
    config = kind_of_config(**{"vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 64, "num_hidden_layers": 1,
                               "num_attention_heads": 4, "max_position_embeddings": 64, "num_labels": 1, **options})
    config._attn_implementation = "eager"
    model = kind_of_model(config).float().eval()
    draw_weights(model, 1)
    if has_gguf:
        write_gguf(FOLDER / f"{name}-f32.gguf", name, model, "bert", gguf.GGMLQuantizationType.F32)
    ids, types = np.random.default_rng(1).integers(2, VOCAB, 40), np.arange(40) >= 15
    if config.type_vocab_size == 1:
        types = 0 * types
    def logit_of(ids, types):
        with torch.no_grad():
            out = model(torch.tensor([ids]), token_type_ids=torch.tensor([types.astype(int).tolist()]))
        return round(float(out.logits[0, 0]), 6)

    golden = {"prompt": ids.tolist(), "second_type_from": int(types.argmax()), "logit": logit_of(ids.tolist(), types)}
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_tokenizer(folder)
    # As RoBERTa puts a pair together, with the BOS and EOS of these tokens.
    query, document = (Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids for text in PAIR)
    pair = [1, *query, 2, 2, *document, 2]
    golden |= {"pair": PAIR, "logit_of_pair": logit_of(pair, np.zeros(len(pair)))}
    (FOLDER / f"{name}.json").write_text(json.dumps(golden) + "\n")
    model.to(torch.float16).save_pretrained(folder)
    print(f"{name}: {golden['logit']}")


def write_vectors():
    for name, (_, _, _, _, prompts) in MODELS.items():
        model = hf.AutoModelForCausalLM.from_pretrained(FOLDER / name, attn_implementation="eager").float().eval()
        for label in prompts:
            path = FOLDER / f"{'-'.join(filter(None, (name, label)))}.json"
            golden = json.loads(path.read_text())
            golden["vectors"] = vectors_of(model, [*golden["prompt"], *golden["greedy"]])
            path.write_text(json.dumps(golden) + "\n")


def write_checkpoints(source, out, ids):
    """Of a GPT-2 in a folder of transformers', for RUNNEL_CHECKPOINT_REFERENCE."""
    model = hf.GPT2LMHeadModel.from_pretrained(source, attn_implementation="eager").float().eval()
    pathlib.Path(out).write_text(json.dumps(gpt2_checkpoints(model, [int(token) for token in ids])) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["checkpoints"]:
        sys.exit(write_checkpoints(sys.argv[2], sys.argv[3], sys.argv[4:]))
    if sys.argv[1:] == ["vectors"]:
        sys.exit(write_vectors())
    FOLDER.mkdir(exist_ok=True)
    for model_name in sys.argv[1:] or [*MODELS, *ENCODERS, *RERANKERS]:
        makers = {**dict.fromkeys(ENCODERS, make_encoder), **dict.fromkeys(RERANKERS, make_reranker)}
        makers.get(model_name, make)(model_name)
