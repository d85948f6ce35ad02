"""What noise guarantees, and what a guarantee costs."""

from dataclasses import replace
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
    records: Annotated[int, typer.Option(help="For a person with up to this many records.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """ε of this many releases of the sampled Gaussian mechanism."""
    from understudy.privacy.accounting import Spending, account, accountant_named
    from understudy.privacy.groups import group_epsilon

    spent, accountant = [Spending(rate, noise, steps)], accountant_named(by)
    claim = account(spent, delta, accountant)
    if records > 1:
        found = group_epsilon(spent, records, delta, accountant)
        claim = replace(claim, epsilon=found, order=None, note=f"for {records} records, by group privacy")
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
    from understudy.runs.persons import person_epsilon
    from understudy.view.ledger import print_ledger

    if not as_json:
        print_ledger(folder)
        return
    ledger = RunFolder(folder).ledger()
    person = person_epsilon(folder, ledger)
    print_json({**ledger, **({} if person is None else {"person": person.as_dict()})})
