"""Attacks on what the process does beside its calls."""
import messages
import wire


def unread_stderr(target):
    """Nobody reads the server's stderr, and 2,000 calls a second fail and are logged: lines are dropped."""

    def act(connection):
        for _ in target.paced(2000, 20):
            for _ in range(20):
                connection.open(wire.UNARY, messages.unary(b"no image"), end=True)
            while connection.poll():
                pass
            connection.answers.clear()
            target.count("calls", 20)

    target.persist(act)


def reload_storm(target):
    """1,500 ReloadModels a second on the service's port, where that is nobody's business."""

    def act(connection):
        for _ in target.paced(1500, 15):
            streams = [connection.open(wire.RELOAD, b"", end=True) for _ in range(15)]
            while connection.poll():
                pass
            if any(connection.answers.pop(stream).status == 0 for stream in streams):
                target.complain("a client has reloaded the models")
            target.count("calls", 15)

    target.persist(act)
