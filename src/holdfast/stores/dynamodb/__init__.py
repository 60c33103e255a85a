"""The store in one DynamoDB table: ``dynamodb://table?region=…&endpoint=…``, with the extra ``dynamodb``.

One table with the keys ``pk`` and ``sk``; ``table.keys`` has the map. Every write that must be atomic is one
TransactWriteItems under an idempotency token, so a lost answer is asked for again and never acted on twice.
Reads are strongly consistent. The service acknowledges when the data is on several disks: flushed is synced.
With ``&blobs=s3://bucket/prefix``, large blobs are objects there, under names that are never reused.

What does not fit into one transaction (100 actions, 4 MB) is done in steps, ordered so that a crash between
them leaves only invisible data, and a marker in the partition ``trash`` for ``reclaim``:

=====================  ====================================  ================================================
what                   steps                                 a crash in between leaves
=====================  ====================================  ================================================
a blob beyond 3.5 MB,  marker; parts or object; head, and    parts or an object that no head names; swept
or for the bucket      the marker is deleted                 an hour later
deleting a long value  head is deleted, marker is written;   parts or an object that no head names; swept by
                       parts or object; marker               the next reclaim
deleting a run         row, index, inbox, marker; events;    events of a journal that no row names; swept
                       marker                                likewise
a range beyond 100     new events, the row's ``void``; old   old events that readers skip, because the row
                       events; ``void`` is removed           lists them; swept by the next replacement or
                                                             reclaim
an append with many    blobs; then the rest                  blobs that nothing refers to; deleted by the
blobs (over ~30), or                                         next prune
one for the bucket
deleting a run with    letters, under the run's guard; then  the run with fewer letters: delete it again
over 30 letters        the run
=====================  ====================================  ================================================
"""
