"""What noise guarantees, and what a guarantee costs."""

from typing import Annotated

import typer

from understudy.cli.app import Json, RunDir, app, print_json

privacy_app = typer.Typer(help="What noise guarantees, and what a guarantee costs.", no_args_is_help=True)
app.add_typer(privacy_app, name="privacy")

Rate = Annotated[float, typer.Option(help="Probability that a record is in a release; 1: always.")]
Steps = Annotated[int, typer.Option(help="Number of releases.")]
Delta = Annotated[float, typer.Option(help="Probability that ε may fail; below 1/n.")]
By = Annotated[str, typer.Option("--accountant", help="rdp, as papers print, or pld, which is tighter.")]


@privacy_app.command("epsilon")
def privacy_epsilon(
    rate: Rate,
    noise: Annotated[float, typer.Option(help="σ, in units of the clip.")],
    steps: Steps,
    delta: Delta,
    by: By = "rdp",
    as_json: Json = False,
) -> None:
    """ε of this many releases of the sampled Gaussian mechanism."""
    from understudy.privacy.accounting import Spending, account, accountant_named

    claim = account([Spending(rate, noise, steps)], delta, accountant_named(by))
    if as_json:
        print_json(claim.as_dict())
    else:
        print(f"ε = {claim.epsilon:.4g} at δ = {delta:g} ({by}{'; ' * bool(claim.note)}{claim.note})")


@privacy_app.command("noise")
def privacy_noise(
    epsilon: Annotated[float, typer.Option(help="The budget.")],
    rate: Rate,
    steps: Steps,
    delta: Delta,
    by: By = "rdp",
    as_json: Json = False,
) -> None:
    """The least noise with which this many releases stay within ε."""
    from understudy.privacy.accounting import Spending, account, accountant_named, noise_for

    accountant = accountant_named(by)
    noise = noise_for(epsilon, delta, rate, steps, accountant)
    claim = account([Spending(rate, noise, steps)], delta, accountant)
    if as_json:
        print_json({"noise": noise, **claim.as_dict()})
    else:
        print(f"noise = {noise:.4f} times the clip gives ε = {claim.epsilon:.4g} at δ = {delta:g} ({by})")


@privacy_app.command("ledger")
def privacy_ledger(folder: RunDir, as_json: Json = False) -> None:
    """Show what left each client of a run, what that cost, and what no guarantee covers."""
    from understudy.runs.folder import RunFolder
    from understudy.view.ledger import print_ledger

    print_json(RunFolder(folder).ledger()) if as_json else print_ledger(folder)
