/* Holds a deletion of a WAL back until another descriptor was refused a lock, or until the file in HELD_UNTIL exists.
 *
 * SQLite deletes the WAL last when it closes, under an exclusive lock on the database. With this library a test has the
 * moment between the lock and the deletion for as long as it needs it. HELD_AT is created when that moment has come.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int refused;

static int locked(const char *name, int fd, int command, void *argument)
{
    int (*next)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    int result = next(fd, command, argument);
    if (result == -1 && command == F_OFD_SETLK && (errno == EAGAIN || errno == EACCES))
        refused = 1;
    return result;
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return locked("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return locked("fcntl64", fd, command, argument);
}

int unlink(const char *path)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    size_t length = strlen(path);
    const char *at = getenv("HELD_AT"), *until = getenv("HELD_UNTIL");
    if (at && until && length > 4 && !strcmp(path + length - 4, "-wal") && access(at, F_OK)) {
        refused = 0;
        close(open(at, O_CREAT | O_WRONLY, 0600));
        while (!refused && access(until, F_OK))
            usleep(1000);
    }
    return next(path);
}
