"""Recurrent models and Whisper."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from case import Case, tokens
from text import VOCABULARY, cross_decoder

_MEL_BINS = 80
_FRAMES = 100


class _Tagger(torch.nn.Module):
    """Embedding, a recurrent network of two layers in both directions, a class per token."""

    def __init__(self, kind: type[torch.nn.RNNBase]) -> None:
        super().__init__()
        self._embedding = torch.nn.Embedding(VOCABULARY, 64)
        self._recurrent = kind(64, 96, num_layers=2, bidirectional=True, batch_first=True)
        self._head = torch.nn.Linear(192, 17)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        states, _ = self._recurrent(self._embedding(input_ids))
        result: torch.Tensor = self._head(states)
        return result


class _Forecaster(torch.nn.Module):
    """A recurrent network whose state goes in and out."""

    def __init__(self, kind: type[torch.nn.RNNBase]) -> None:
        super().__init__()
        self._recurrent = kind(24, 80, num_layers=1, batch_first=True)
        self._head = torch.nn.Linear(80, 5)

    def forward(self, series: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states, last = self._recurrent(series, state if len(state) > 1 else state[0])
        flat = last if isinstance(last, tuple) else (last,)
        return (self._head(states), *flat)


def _tagger(kind: type[torch.nn.RNNBase]) -> Case:
    return Case(
        _Tagger(kind).eval(),
        {"input_ids": tokens(VOCABULARY, 2, 7)},
        ("scores",),
        {"input_ids": {0: "batch", 1: "sequence"}},
    )


def _forecaster(kind: type[torch.nn.RNNBase], states: tuple[str, ...]) -> Case:
    inputs = {"series": torch.randn(2, 7, 24)}
    inputs |= {name: torch.randn(1, 2, 80) for name in states}
    axes = {"series": {0: "batch", 1: "sequence"}} | {name: {1: "batch"} for name in states}
    outputs = ("forecast", *(f"{name}_n" for name in states))
    return Case(_Forecaster(kind).eval(), inputs, outputs, axes)


def _whisper_config() -> transformers.WhisperConfig:
    return transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=_MEL_BINS,
        d_model=192,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=768,
        decoder_ffn_dim=768,
        max_source_positions=_FRAMES,
        max_target_positions=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )


class _WhisperEncoder(torch.nn.Module):
    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self._encoder = encoder

    def forward(self, input_features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._encoder(input_features).last_hidden_state
        return result


def _whisper_encoder() -> Case:
    model = transformers.WhisperModel(_whisper_config())
    return Case(
        _WhisperEncoder(model.encoder.eval()).eval(),
        # Two frames of sound are one position; Whisper takes windows of one length only.
        {"input_features": torch.randn(2, _MEL_BINS, 2 * _FRAMES)},
        ("last_hidden_state",),
        {"input_features": {0: "batch"}},
    )


def _whisper_decoder() -> Case:
    model = transformers.WhisperForConditionalGeneration(_whisper_config())
    return cross_decoder(model.model.decoder, model.proj_out, 50, 192)


CASES: dict[str, Callable[[], Case]] = {
    "lstm_tagger": lambda: _tagger(torch.nn.LSTM),
    "gru_tagger": lambda: _tagger(torch.nn.GRU),
    "lstm_forecaster": lambda: _forecaster(torch.nn.LSTM, ("h", "c")),
    "gru_forecaster": lambda: _forecaster(torch.nn.GRU, ("h",)),
    "whisper_encoder": _whisper_encoder,
    "whisper_decoder": _whisper_decoder,
}
