"""One engine for all editor windows of a user: a process of its own, and what its clients need.

A language server does not load a model. It connects to the user's host, over a socket that nobody else can
open, and asks for one: the first to ask starts the host, and the host loads each model once, whoever asks.
It outlives the editor that started it.

**Memory.** A model that nobody has used for its idle minutes is unloaded, and a host whose last one that was
leaves: only the end of a process gives all memory back, what CUDA holds on a GPU included. The clients are
told, and start another that waits, with PyTorch up (some 230 MB) but nothing on a GPU, so that the next
keystroke has the model some seconds sooner. Any host leaves when the last client has been gone for a while.

**Several models.** What tells models apart is the oracle, the device and the weights; windows that ask for
the same share them. Others are loaded beside them, and each is unloaded when it is idle. Drafts and trigram
tables come with each request (see `engine.Engine.guess_with`), so windows of different repositories share an
oracle.

**Versions.** A host serves the version of Draftline that started it: its folder, and with it its address and
lock, is named after version and machine. After an update the old host leaves with its last client, and the
new one runs beside it until then; they never take each other's socket. A host whose folder, key or socket
was deleted, so that nobody finds it any more, leaves at once.

**Crashes.** When the host dies, its clients notice at once and the first of them starts another, at most
three times a minute, all clients together. A model that was being loaded when two hosts died is refused for
ten minutes, or until its files change.

The files, from the bottom up: ``wire`` (messages), ``line`` (a connection), ``place`` (folder, key, address,
locks), ``door`` (the socket), ``schedule`` (whose turn it is), ``shelf`` (loaded models), ``tally``
(figures), ``client`` (one of them) and ``process`` (the host); ``start`` (reaching or starting it),
``spare`` (one that waits) and ``remote`` (an engine there, as `engine.face.EngineFace`).
"""
