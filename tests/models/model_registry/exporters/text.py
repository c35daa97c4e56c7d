"""Text models: encoders, decoders with a key-value cache, encoder-decoders."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from case import Case, tokens

_BATCH_SEQUENCE = {0: "batch", 1: "sequence"}
VOCABULARY = 1000
_PAST = 6


class _Encoder(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._model(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        return result


def _encoder(model: torch.nn.Module) -> Case:
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 5:] = 0
    return Case(
        _Encoder(model.eval()).eval(),
        {"input_ids": tokens(VOCABULARY, 2, 9), "attention_mask": mask},
        ("last_hidden_state",),
        {"input_ids": _BATCH_SEQUENCE, "attention_mask": _BATCH_SEQUENCE},
    )


class _CachedDecoder(torch.nn.Module):
    """A causal language model whose keys and values go in and out as plain tensors."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        *past: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        cache = transformers.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self._model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        present = [
            tensor
            for layer in result.past_key_values.layers
            for tensor in (layer.keys, layer.values)
        ]
        return (result.logits, *present)


def _cached_decoder(model: torch.nn.Module, layers: int, heads: int, head_size: int) -> Case:
    inputs = {
        "input_ids": tokens(VOCABULARY, 2, 3),
        "attention_mask": torch.ones(2, _PAST + 3, dtype=torch.int64),
        "position_ids": torch.arange(_PAST, _PAST + 3).expand(2, 3).contiguous(),
    }
    axes = {
        "input_ids": _BATCH_SEQUENCE,
        "attention_mask": {0: "batch", 1: "past_sequence + sequence"},
        "position_ids": _BATCH_SEQUENCE,
    }
    outputs = ["logits"]
    for layer in range(layers):
        for kind in ("key", "value"):
            name = f"past_key_values.{layer}.{kind}"
            inputs[name] = torch.randn(2, heads, _PAST, head_size)
            axes[name] = {0: "batch", 2: "past_sequence"}
            outputs.append(f"present.{layer}.{kind}")
    return Case(_CachedDecoder(model.eval()).eval(), inputs, tuple(outputs), axes)


class _CrossDecoder(torch.nn.Module):
    """The decoder of an encoder-decoder, without a cache, with its head."""

    def __init__(self, decoder: torch.nn.Module, head: torch.nn.Module) -> None:
        super().__init__()
        self._decoder = decoder
        self._head = head

    def forward(
        self, decoder_input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        hidden = self._decoder(
            input_ids=decoder_input_ids,
            # Without a mask the model looks for packed sequences, which can't be exported.
            attention_mask=torch.ones_like(decoder_input_ids),
            encoder_hidden_states=encoder_hidden_states,
            use_cache=False,
        ).last_hidden_state
        result: torch.Tensor = self._head(hidden)
        return result


def cross_decoder(decoder: torch.nn.Module, head: torch.nn.Module, length: int, width: int) -> Case:
    """A decoder that attends to `length` encoder states of `width`."""
    return Case(
        _CrossDecoder(decoder.eval(), head.eval()).eval(),
        {
            "decoder_input_ids": tokens(VOCABULARY, 2, 5),
            "encoder_hidden_states": torch.randn(2, length, width),
        },
        ("logits",),
        {
            "decoder_input_ids": _BATCH_SEQUENCE,
            "encoder_hidden_states": {0: "batch", 1: "encoder_sequence"},
        },
    )


def _bert() -> Case:
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=3)
    return _encoder(transformers.BertModel(config, add_pooling_layer=False))


def _distilbert() -> Case:
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=256, n_layers=2, n_heads=4, hidden_dim=1024
    )
    return _encoder(transformers.DistilBertModel(config))


def _albert() -> Case:
    config = transformers.AlbertConfig(
        vocab_size=VOCABULARY,
        embedding_size=64,
        hidden_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    return _encoder(transformers.AlbertModel(config, add_pooling_layer=False))


def _gpt2() -> Case:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=256, n_layer=2, n_head=4
    )
    return _cached_decoder(transformers.GPT2LMHeadModel(config), 2, 4, 64)


def _llama() -> Case:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    return _cached_decoder(transformers.LlamaForCausalLM(config), 2, 2, 64)


def _t5() -> transformers.T5ForConditionalGeneration:
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY, d_model=256, d_kv=64, d_ff=1024, num_layers=2, num_heads=4
        )
    )


def _t5_decoder() -> Case:
    model = _t5()
    return cross_decoder(model.decoder, model.lm_head, 7, 256)


CASES: dict[str, Callable[[], Case]] = {
    "bert": _bert,
    "distilbert": _distilbert,
    "albert": _albert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5_encoder": lambda: _encoder(_t5().encoder),
    "t5_decoder": _t5_decoder,
}
