/* A disk whose syncs take SYNC_US: fsync and fdatasync return that long after they were called, and not before.
   It waits busily: a sleep of so few microseconds ends whenever the scheduler likes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#ifndef SYNC_US
#define SYNC_US 100
#endif

static long now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static int slowly(const char *name, int fd) {
    long until = now_ns() + SYNC_US * 1000L;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd);
    while (now_ns() < until) {
    }
    return result;
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
