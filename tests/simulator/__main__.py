import sys, time
from collections import Counter
from tests.simulator.play import play
from tests.simulator.script import script_of
a, _, b = sys.argv[1].partition(":")
t=time.process_time()
total=Counter()
for seed in range(int(a), int(b or int(a)+1)):
    try:
        p = play(script_of(seed))
    except BaseException as e:
        import traceback; traceback.print_exc()
        print("seed", seed, "RAISED", repr(e)); 
        if len(sys.argv)<3: break
        continue
    total += p.counts
    if p.broken: print("seed", seed, p.digest, p.broken[:3])
print(total, time.process_time()-t)
