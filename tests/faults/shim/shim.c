/* A disk that fails, forgets and remembers: loaded below SQLite and Python with LD_PRELOAD.
 *
 * It stands before the C library's file calls and looks only at the files of one store: the directory that
 * holds the database named to shim_begin(), and what lies directly in it. For those it
 *
 *   - makes calls fail with a real errno, write short, or kill the process, at the n-th call that matches a rule;
 *   - forgets as Linux does: after an fsync that failed, what was unsynced before it never reaches the disk, although
 *     the page cache still shows it and the next fsync succeeds;
 *   - logs what reached the page cache, and what reached the disk, into a file outside of the store, so that a
 *     power cut at any point can be played afterwards (replay.py).
 *
 * No real fsync is made: the page cache outlives every process here, and the power cuts are played. The tests control
 * the shim through the shim_… functions at the end, by ctypes; a process that calls none of them gets the C library.
 *
 * Order is what the log is for. Each call and its record are made under one lock (flock on the log, so that a killed
 * process cannot keep it), and a kill falls under that lock too: no call is ever made without its record. The log is
 * mapped, not written: so neither a limit on file sizes nor a full table of descriptors touches it.
 *
 * Not seen: stores into mapped memory (the -shm file: no power cut leaves it), and the calls that neither SQLite nor
 * Holdfast makes on a store (pwritev, sendfile, copy_file_range, link). After every schedule the tests compare the
 * log, played to its end, with the real files byte by byte: a call that went past us is seen there.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a file of a store is, what is done to it, and what a rule does about that; the same numbers stand in shim.py. */
enum { DB = 1, WAL = 2, JOURNAL = 4, SHM = 8, SIDE = 16, DIRECTORY = 32, SEARCH = 64 };
enum { OPEN = 1, WRITE = 2, TRUNCATE = 4, SYNC = 8, UNLINK = 16, RENAME = 32, READ = 64 };
enum { FAIL = 1, SHORT = 2, FULL = 3, KILL_BEFORE = 4, KILL_AFTER = 5, KILL_TORN = 6, LOSE = 7 };
/* How the disk behaves as a whole. */
enum { TELL_EVERY_DESCRIPTOR = 1, LIE_ABOUT_SYNCS = 2, NO_LOCKS_OF_FILES = 4 };
/* The records. */
enum { R_OPEN = 1, R_WRITE, R_TRUNCATE, R_SYNC, R_LOST, R_UNLINK, R_RENAME, R_MARK, R_FAULT };

#define DESCRIPTORS 4096
#define RULES 8
#define INODES 256
#define HEADER_BYTES 16384

struct record {
    uint32_t size; /* of the record with its data, a multiple of 8 */
    uint8_t type, kind;
    uint16_t flags;
    uint64_t inode;
    int64_t number; /* an offset, a length, an errno or a seq */
    uint32_t pid, length;
};

struct failures { /* how often a sync of this file failed, for the descriptors that have not heard of it */
    uint64_t inode;
    uint64_t count;
};

struct log {
    uint64_t capacity;
    uint64_t used; /* set behind each whole record */
    struct failures failures[INODES];
};

struct rule {
    unsigned kinds, calls;
    long skip, count, seen, fired;
    int action, error;
};

struct descriptor {
    unsigned kind;
    uint64_t inode, heard;
};

static char database[PATH_MAX], directory[PATH_MAX], log_path[PATH_MAX];
static size_t directory_length;
static int behaviour, lock_fd = -1, watching_reads;
static struct log *told;
static struct rule rules[RULES];
static struct descriptor descriptors[DESCRIPTORS];
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

#define REAL(result, name, ...)                                   \
    static result (*real_##name)(__VA_ARGS__);                    \
    static result (*find_##name(void))(__VA_ARGS__) {             \
        if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name);  \
        return real_##name;                                       \
    }
REAL(int, openat64, int, const char *, int, ...)
REAL(int, close, int)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
REAL(ssize_t, writev, int, const struct iovec *, int)
REAL(ssize_t, read, int, void *, size_t)
REAL(ssize_t, pread64, int, void *, size_t, off64_t)
REAL(int, ftruncate64, int, off64_t)
REAL(int, fsync, int)
REAL(int, fdatasync, int)
REAL(int, fcntl64, int, int, ...)
REAL(int, unlink, const char *)
REAL(int, unlinkat, int, const char *, int)
REAL(int, rename, const char *, const char *)
REAL(int, renameat, int, const char *, int, const char *)

/* -- which file, which call --------------------------------------------------------------------------------- */

static int ends(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size >= tail && strcmp(path + size - tail, end) == 0;
}

/* 0 for what is none of our business. Paths must be absolute, as SQLite's and the tests' are. */
static unsigned kind_of(const char *path) {
    if (!told || !path || strncmp(path, directory, directory_length) != 0) return 0;
    if (path[directory_length] == 0) return DIRECTORY;
    if (path[directory_length] != '/' || strchr(path + directory_length + 1, '/')) return 0;
    if (strcmp(path, database) == 0) return DB;
    if (strstr(path + directory_length, "-search")) return SEARCH;
    if (ends(path, "-wal")) return WAL;
    if (ends(path, "-journal")) return JOURNAL;
    if (ends(path, "-shm")) return SHM;
    return SIDE;
}

static struct descriptor *tracked(int fd) {
    return told && fd >= 0 && fd < DESCRIPTORS && descriptors[fd].kind ? &descriptors[fd] : NULL;
}

static void lock(void) {
    pthread_mutex_lock(&threads);
    while (flock(lock_fd, LOCK_EX) != 0 && errno == EINTR) {}
}

static void unlock(void) {
    int kept = errno;
    flock(lock_fd, LOCK_UN);
    pthread_mutex_unlock(&threads);
    errno = kept;
}

/* -- the log ------------------------------------------------------------------------------------------------ */

static void record(int type, unsigned kind, int flags, uint64_t inode, int64_t number, const void *data, size_t length) {
    uint64_t size = (sizeof(struct record) + length + 7) & ~7ull;
    if (told->used + size > told->capacity) {
        static const char full[] = "shim: the log is full: make it larger, or the schedule shorter\n";
        (void)!find_write()(2, full, sizeof full - 1);
        abort();
    }
    struct record *made = (struct record *)((char *)told + told->used);
    *made = (struct record){(uint32_t)size, (uint8_t)type, (uint8_t)kind, (uint16_t)flags,
                            inode, number, (uint32_t)getpid(), (uint32_t)length};
    if (length) memcpy(made + 1, data, length);
    __atomic_store_n(&told->used, told->used + size, __ATOMIC_RELEASE);
}

static uint64_t *failures_of(uint64_t inode) {
    for (int i = 0; i < INODES; i++) {
        if (told->failures[i].inode == 0) told->failures[i].inode = inode;
        if (told->failures[i].inode == inode) return &told->failures[i].count;
    }
    abort();
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* The rule that strikes at this call, or none; it is in the log then. The caller holds the lock. */
static struct rule *struck(unsigned kind, unsigned call) {
    for (int slot = 0; slot < RULES; slot++) {
        struct rule *rule = &rules[slot];
        if (!(rule->kinds & kind) || !(rule->calls & call)) continue;
        long nth = rule->seen++;
        if (nth < rule->skip || (rule->count >= 0 && nth >= rule->skip + rule->count)) continue;
        rule->fired++;
        record(R_FAULT, kind, (int)(call | (unsigned)rule->action << 8), 0, rule->error, NULL, 0);
        if (rule->action == KILL_BEFORE) die();
        return rule;
    }
    return NULL;
}

static int fails(struct rule *rule) {
    if (rule && rule->action == FAIL) errno = rule->error;
    return rule && rule->action == FAIL;
}

static void die_if_told(struct rule *rule) {
    if (rule && (rule->action == KILL_AFTER || rule->action == KILL_TORN)) die();
}

/* -- the calls ---------------------------------------------------------------------------------------------- */

static int opening(int at, const char *path, int flags, mode_t mode) {
    unsigned kind = kind_of(path);
    if (!kind) return find_openat64()(at, path, flags, mode);
    lock();
    struct rule *rule = struck(kind, OPEN);
    int fd = -1;
    if (!fails(rule)) {
        struct stat64 status;
        int is_new = (flags & O_CREAT) && lstat64(path, &status) != 0;
        fd = find_openat64()(at, path, flags, mode);
        if (fd >= DESCRIPTORS) abort();
        if (fd >= 0 && fstat64(fd, &status) == 0) {
            record(R_OPEN, kind, is_new, status.st_ino, 0, path, strlen(path));
            if (is_new) *failures_of(status.st_ino) = 0;
            if ((flags & O_TRUNC) && !is_new) record(R_TRUNCATE, kind, 0, status.st_ino, 0, NULL, 0);
            descriptors[fd] = (struct descriptor){kind, status.st_ino, *failures_of(status.st_ino)};
        }
        if (fd < 0 && errno == EMFILE) record(R_FAULT, kind, OPEN, 0, EMFILE, NULL, 0); /* a real one */
        die_if_told(rule);
    }
    unlock();
    return fd;
}

static ssize_t writing(int fd, struct descriptor *file, const void *data, size_t length, off64_t offset, int moves) {
    lock();
    struct rule *rule = struck(file->kind, WRITE);
    ssize_t written = -1;
    int is_full = rule && rule->action == FULL;
    /* A disk that fills up takes a part of the first write, and then nothing. */
    if (is_full && (rule->fired > 1 || length < 1024)) errno = rule->error;
    else if (!fails(rule)) {
        if (is_full) length = length / 2 & ~511ul;
        else if (rule && (rule->action == SHORT || rule->action == KILL_TORN) && length > 1) length /= 2;
        if (moves) {
            struct stat64 status;
            offset = lseek64(fd, 0, SEEK_CUR);
            if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat64(fd, &status) == 0) offset = status.st_size;
            written = find_write()(fd, data, length);
        } else written = find_pwrite64()(fd, data, length, offset);
        int kept = errno;
        if (written > 0) record(R_WRITE, file->kind, 0, file->inode, offset, data, (size_t)written);
        if (written < 0) record(R_FAULT, file->kind, WRITE, 0, kept, NULL, 0); /* a real one: a limit of the process */
        errno = kept;
        die_if_told(rule);
    }
    unlock();
    return written;
}

static int truncating(int fd, struct descriptor *file, off64_t size) {
    lock();
    struct rule *rule = struck(file->kind, TRUNCATE);
    int result = -1;
    if (!fails(rule)) {
        result = find_ftruncate64()(fd, size);
        int kept = errno;
        if (result == 0) record(R_TRUNCATE, file->kind, 0, file->inode, size, NULL, 0);
        else record(R_FAULT, file->kind, TRUNCATE, 0, kept, NULL, 0);
        errno = kept;
        die_if_told(rule);
    }
    unlock();
    return result;
}

static int syncing(struct descriptor *file) {
    lock();
    struct rule *rule = struck(file->kind, SYNC);
    uint64_t *failures = failures_of(file->inode);
    int result = 0;
    if (fails(rule)) {
        /* The pages are called clean without having been written. A directory has none: it is just not synced. */
        if (file->kind != DIRECTORY) record(R_LOST, file->kind, 0, file->inode, 0, NULL, 0);
        file->heard = ++*failures;
        errno = rule->error;
        result = -1;
    } else if (rule && rule->action == LOSE) {
        record(R_LOST, file->kind, 0, file->inode, 0, NULL, 0); /* and says nothing: no disk may, no program can tell */
    } else {
        if (rule && rule->action == KILL_TORN) die();
        if (!(behaviour & LIE_ABOUT_SYNCS)) record(R_SYNC, file->kind, 0, file->inode, 0, NULL, 0);
        die_if_told(rule);
        if (file->heard != *failures) {
            /* Newer kernels tell of a failure once through every descriptor that was open then; others tell the first
             * one who asks. What was written since has reached the disk all the same. */
            file->heard = *failures;
            if (behaviour & TELL_EVERY_DESCRIPTOR) {
                record(R_FAULT, file->kind, SYNC, 0, EIO, NULL, 0);
                errno = EIO;
                result = -1;
            }
        }
    }
    unlock();
    return result;
}

static int unlinking(const char *path, unsigned kind, int at, int flags) {
    lock();
    struct rule *rule = struck(kind, UNLINK);
    int result = -1;
    if (!fails(rule)) {
        result = find_unlinkat()(at, path, flags);
        int kept = errno;
        if (result == 0) record(R_UNLINK, kind, 0, 0, 0, path, strlen(path));
        errno = kept;
        die_if_told(rule);
    }
    unlock();
    return result;
}

static int renaming(int old_at, const char *old, int new_at, const char *new) {
    unsigned kind = kind_of(old) | kind_of(new);
    if (!kind) return find_renameat()(old_at, old, new_at, new);
    lock();
    struct rule *rule = struck(kind, RENAME);
    int result = -1;
    if (!fails(rule)) {
        result = find_renameat()(old_at, old, new_at, new);
        if (result == 0) {
            char both[2 * PATH_MAX];
            int length = snprintf(both, sizeof both, "%s%c%s", old, 0, new);
            record(R_RENAME, kind, 0, 0, 0, both, (size_t)length);
        }
        die_if_told(rule);
    }
    unlock();
    return result;
}

static int reading_fails(struct descriptor *file) {
    lock();
    int result = fails(struck(file->kind, READ));
    unlock();
    return result;
}

/* -- the names that programs are linked with ---------------------------------------------------------------- */

#define MODE(flags, mode)                                      \
    mode_t mode = 0;                                           \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                     \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode = va_arg(rest, mode_t);                           \
        va_end(rest);                                          \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return opening(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return opening(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, mode) return opening(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, mode) return opening(at, path, flags, mode); }
int creat(const char *path, mode_t mode) { return opening(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int __open_2(const char *path, int flags) { return opening(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opening(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return opening(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return opening(at, path, flags, 0); }

int close(int fd) {
    struct descriptor *file = tracked(fd);
    if (file) file->kind = 0; /* before: the number may be given out again at once */
    return find_close()(fd);
}

ssize_t write(int fd, const void *data, size_t length) {
    struct descriptor *file = tracked(fd);
    return file ? writing(fd, file, data, length, 0, 1) : find_write()(fd, data, length);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    struct descriptor *file = tracked(fd);
    return file ? writing(fd, file, data, length, offset, 0) : find_pwrite64()(fd, data, length, offset);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!tracked(fd)) return find_writev()(fd, parts, count);
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0) return all ? all : -1;
        all += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return all;
}

ssize_t read(int fd, void *data, size_t length) {
    struct descriptor *file = watching_reads ? tracked(fd) : NULL;
    return file && reading_fails(file) ? -1 : find_read()(fd, data, length);
}

ssize_t pread64(int fd, void *data, size_t length, off64_t offset) {
    struct descriptor *file = watching_reads ? tracked(fd) : NULL;
    return file && reading_fails(file) ? -1 : find_pread64()(fd, data, length, offset);
}

ssize_t pread(int fd, void *data, size_t length, off_t offset) { return pread64(fd, data, length, offset); }

int ftruncate64(int fd, off64_t size) {
    struct descriptor *file = tracked(fd);
    return file ? truncating(fd, file, size) : find_ftruncate64()(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int truncate64(const char *path, off64_t size) {
    int fd = opening(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    int result = ftruncate64(fd, size), kept = errno;
    close(fd);
    errno = kept;
    return result;
}

int truncate(const char *path, off_t size) { return truncate64(path, size); }

int fsync(int fd) {
    struct descriptor *file = tracked(fd);
    return file ? syncing(file) : find_fsync()(fd);
}

int fdatasync(int fd) {
    struct descriptor *file = tracked(fd);
    return file ? syncing(file) : find_fdatasync()(fd);
}

/* Locks that belong to an open file (F_OFD_…) can be taken away from a program that counts on them, without a word:
 * whoever asks for one gets it, and whoever looks for one sees what it hoped to see. */
static int locking(int fd, int command, void *argument) {
    int is_ofd = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;
    return is_ofd && told && (behaviour & NO_LOCKS_OF_FILES) ? 0 : find_fcntl64()(fd, command, argument);
}

#define ARGUMENT(name, last)                        \
    va_list rest;                                   \
    va_start(rest, last);                           \
    void *name = va_arg(rest, void *);              \
    va_end(rest);

int fcntl(int fd, int command, ...) { ARGUMENT(argument, command) return locking(fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT(argument, command) return locking(fd, command, argument); }

int unlink(const char *path) {
    unsigned kind = kind_of(path);
    return kind ? unlinking(path, kind, AT_FDCWD, 0) : find_unlink()(path);
}

int unlinkat(int at, const char *path, int flags) {
    unsigned kind = kind_of(path);
    return kind ? unlinking(path, kind, at, flags) : find_unlinkat()(at, path, flags);
}

int rename(const char *old, const char *new) {
    return told ? renaming(AT_FDCWD, old, AT_FDCWD, new) : find_rename()(old, new);
}

int renameat(int old_at, const char *old, int new_at, const char *new) { return renaming(old_at, old, new_at, new); }

/* -- what the tests call ------------------------------------------------------------------------------------ */

/* A lock that is the parent's too would keep nobody out: a forked child opens the log for itself. */
static void after_fork(void) {
    pthread_mutex_init(&threads, NULL);
    if (lock_fd < 0) return;
    find_close()(lock_fd);
    lock_fd = find_openat64()(AT_FDCWD, log_path, O_RDWR | O_CLOEXEC);
    if (lock_fd < 0) abort();
}

/* Watch a store from now on; files that this process has open already are not seen. 0, or an errno. */
int shim_begin(const char *database_path, const char *path, int how) {
    struct stat64 status;
    int fd = find_openat64()(AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat64(fd, &status) != 0) return errno;
    void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return errno;
    snprintf(database, sizeof database, "%s", database_path);
    snprintf(directory, sizeof directory, "%s", database_path);
    *strrchr(directory, '/') = 0;
    directory_length = strlen(directory);
    snprintf(log_path, sizeof log_path, "%s", path);
    behaviour = how;
    lock_fd = fd;
    told = mapped;
    lock();
    if (told->capacity == 0) {
        told->capacity = (uint64_t)status.st_size;
        told->used = HEADER_BYTES;
    }
    unlock();
    return pthread_atfork(NULL, NULL, after_fork);
}

/* From now on: let `skip` matching calls pass, then strike `count` of them (for ever: -1). */
void shim_rule(int slot, unsigned kinds, unsigned calls, long skip, long count, int action, int error) {
    pthread_mutex_lock(&threads);
    rules[slot] = (struct rule){kinds, calls, skip, count, 0, 0, action, error};
    watching_reads = 0;
    for (int i = 0; i < RULES; i++) watching_reads |= rules[i].calls & READ;
    pthread_mutex_unlock(&threads);
}

void shim_lift(void) {
    pthread_mutex_lock(&threads);
    memset(rules, 0, sizeof rules);
    watching_reads = 0;
    pthread_mutex_unlock(&threads);
}

long shim_fired(int slot) { return rules[slot].fired; }

/* Put a word of the test's own into the log, at its place in the order of things. */
void shim_mark(int flags, unsigned long run, long seq) {
    lock();
    record(R_MARK, 0, flags, run, seq, NULL, 0);
    unlock();
}
