"""Background work whose attempts a test looks at, in their order."""

from __future__ import annotations

from odradek.server.runtime.background_tasks import BackgroundTasks


class NotedBackground(BackgroundTasks):
    """`attempts`: the name of each task that succeeded, and the name with " failed" of each that did not."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[str] = []

    def failed(self, task: str, failure: BaseException) -> None:
        super().failed(task, failure)
        self.attempts.append(f"{task} failed")

    def succeeded(self, task: str) -> None:
        super().succeeded(task)
        self.attempts.append(task)
