"""Puts the commands together and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from moonpoly.cli import bench, compile_model, info, inspect, run_model, tune
from moonpoly.error import MoonPolyError, StorageError

app = typer.Typer(
    name="moonpoly",
    help="A dynamic-shape tensor compiler: tune once, compile a model, run it at any shape.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    context: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the traceback of an error.")
    ] = False,
) -> None:
    context.obj = {"verbose": verbose}


app.command("compile")(compile_model.compile_model)
app.command("run")(run_model.run_model)
app.command("tune")(tune.tune)
app.command("export")(tune.export)
app.command("calibrate")(tune.calibrate)
app.add_typer(bench.app, name="bench")
app.command("inspect")(inspect.inspect)
app.command("info")(info.info)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    The exit code is 0, 2 for a wrong option, 130 when interrupted, or the code of the
    :class:`~moonpoly.error.MoonPolyError` that was raised.
    """
    words = list(sys.argv[1:] if args is None else args)
    verbose = "--verbose" in words
    # --verbose is understood before and after the command's name.
    words = [word for word in words if word != "--verbose"]
    sys.exit(_run(words, verbose=verbose))


def _run(words: list[str], *, verbose: bool) -> int:
    try:
        return app(args=words, prog_name="moonpoly", standalone_mode=False) or 0
    except typer.TyperException as err:
        # The message is empty where no command was given: the help has been printed.
        if message := err.format_message():
            _print_error(message)
        return err.exit_code
    except typer.Abort:
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone (`moonpoly inspect … | head`); Python must not say so again.
        sys.stdout = None
        return 0
    except (MoonPolyError, OSError) as err:
        if verbose:
            raise
        _print_error(_one_line(err))
        return err.exit_code if isinstance(err, MoonPolyError) else StorageError.exit_code


def _one_line(err: MoonPolyError | OSError) -> str:
    if isinstance(err, OSError) and err.strerror:
        place = f"{err.filename}: " if err.filename else ""
        return f"{place}{err.strerror}"
    return " ".join(str(err).split())


def _print_error(message: str) -> None:
    sys.stderr.write(f"moonpoly: error: {message}\n")
