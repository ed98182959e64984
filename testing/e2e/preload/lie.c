/* A disk that lies: every sync succeeds and none is done. Loaded into the program under test with LD_PRELOAD, as the
 * control of tests that claim to notice a missing sync. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
int syncfs(int fd) { (void)fd; return 0; }
void sync(void) {}
int sync_file_range(int fd, off_t offset, off_t count, unsigned flags) {
  (void)fd, (void)offset, (void)count, (void)flags;
  return 0;
}
