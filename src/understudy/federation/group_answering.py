"""The client's side for a group: a task that several sites do as one program, and an answer from each of them.

Every client has its own request, memory, checks and failures. What goes wrong before or after the training is the
failure of the client where it went wrong; a training that fails is repeated one client at a time, and only those fail
that fail alone.
"""

from collections.abc import Mapping, Sequence

from understudy.federation.answering import answer, check_request
from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.method import Method, Pausing, Together
from understudy.federation.site import Site
from understudy.federation.working import ReadyWork, Worked, prepare, worked
from understudy.learning.loop import Trained
from understudy.learning.together.stacking import Exercise
from understudy.randomness import global_streams_kept, seed_global_stream


def answer_together(
    sites: Mapping[str, Site], method: Method, together: Together, requests: Sequence[Request]
) -> list[Answer]:
    """One answer per request, in their order. Also a client whose reply is still there takes part: with another group,
    the others' last bits would differ."""
    members = [_Member(sites[request.client], request) for request in requests]
    with global_streams_kept():
        for member in members:
            member.begin(method, together)
        _train(together, [member for member in members if member.exercise is not None])
        return [answer(member.site, method, member.request, member.finish) for member in members]


def _train(together: Together, members: "Sequence[_Member]") -> None:
    exercises = [member.exercise for member in members if member.exercise is not None]
    if not exercises:
        return
    try:
        for member, trained in zip(members, together.train(exercises), strict=True):
            member.trained = trained
    except Exception as error:  # a record or a bug of one of them, and it cannot be told whose
        if len(members) == 1:
            members[0].failure = error
            return
        for member in members:
            _train(together, [member])


class _Member:
    """One client of a group. Whatever it raises is kept until it is asked for its work."""

    def __init__(self, site: Site, request: Request):
        self.site, self.request = site, request
        self.exercise: Exercise | None = None
        self.trained: Trained | None = None
        self.failure: Exception | None = None
        self._ready: ReadyWork | None = None
        self._together: Together | None = None
        self._task: Pausing | None = None
        self._reply: Message | None = None

    def begin(self, method: Method, together: Together) -> None:
        self._together = together
        try:
            check_request(self.site, self.request)
            self._ready = prepare(self.site, method, self.request)
            self._task = together.work(self._ready.client, self._ready.brief)
            self._go_on(None)
        except Exception as error:
            self.failure = error

    def finish(self, site: Site, method: Method, request: Request) -> Worked:
        while self.failure is None and self._reply is None:
            self._go_on(self._result())
        if self.failure is not None:
            raise self.failure
        assert self._ready is not None
        assert self._reply is not None
        return worked(request, self._ready, self._reply)

    def _result(self) -> Trained:
        """What came of the exercise; a task that trains again later does that alone."""
        trained, self.trained = self.trained, None
        if trained is not None:
            return trained
        assert self._together is not None
        assert self.exercise is not None
        return self._together.train([self.exercise])[0]

    def _go_on(self, trained: Trained | None) -> None:
        """Up to the task's next training, or to its reply."""
        assert self._task is not None
        words = self.site.seed, self.request.round, self.site.name, self.request.task
        seed_global_stream(*words, *(() if trained is None else ("after training",)))
        try:
            self.exercise = next(self._task) if trained is None else self._task.send(trained)
        except StopIteration as done:
            self.exercise, self._reply = None, done.value
