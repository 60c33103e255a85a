"""The store in one DynamoDB table: ``dynamodb://table?region=…&endpoint=…``, with the extra ``dynamodb``.

One table with the keys ``pk`` and ``sk``; ``keys`` has the map of what lies where. Every write that must not be half
done is one TransactWriteItems under an idempotency token, so an answer that got lost is asked for again and never
acted on twice. Reads are strongly consistent. What the service acknowledges is on several disks: flushed is synced.
With ``&blobs=s3://bucket/prefix``, large contents lie there as objects, under names that are never used twice.

What does not fit into one transaction (100 actions, 4 MB) is done in steps, ordered so that a crash between them
leaves only what nobody can see, beside a marker in the partition ``trash`` that ``reclaim`` follows up:

=====================  =========================================  =========================================================
what                   steps                                      a crash in between leaves
=====================  =========================================  =========================================================
a blob beyond 3.5 MB,  marker; parts or object; head, marker      parts or an object that no head names; swept an hour
or for the bucket      goes                                       later
deleting a long value  head goes, marker comes; parts or object;  parts or an object that no head names; swept by the next
                       marker                                     reclaim
deleting a run         row, index, inbox, marker; events; marker  events of a journal that no row names; swept likewise
a stretch beyond 100   new events, the row's ``void``; old        old events that readers skip, because the row says which
                       events; ``void`` goes                      are void; swept by the next replacement or reclaim
an append with many    blobs; then the rest                       blobs that nothing refers to; the next prune's business
blobs (over ~30), or
one for the bucket
a run with over 30     letters, under the run's guard; then       a run that is still there, with fewer letters: delete it
letters is deleted     the run                                    again
=====================  =========================================  =========================================================
"""
