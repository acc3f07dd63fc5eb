/* Moves the calendar clock of a process that has this preloaded by as many nanoseconds as the file
 * CLOCK_MOVED holds, which may change at any time. Other clocks stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *moved_ns;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("CLOCK_MOVED");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *moved_ns, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) moved_ns = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (failed || !moved_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
    return failed;
  int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *moved_ns;
  now->tv_sec = ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}
