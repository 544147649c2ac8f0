/* The simulated machine: the input of both libraries of the simulated driver, and the simulation of faults.
 *
 * The file named by TFGPU_DOCTOR_MACHINE contains one `key=value` per line, as rehearse/flat_text.py writes it:
 *   driver=550.54.15            cuda=12.4              gpus=2
 *   gpus.0.name=NVIDIA L4       gpus.0.ecc.volatile_uncorrected=1     gpus.0.processes=0
 *   fault.cuInit=999            fault.1.nvmlDeviceGetTemperature=hang   (or wedge, or crash)
 * A list has a line with its length and numbered lines for its entries. A missing key is an unsupported query.
 */
#define _POSIX_C_SOURCE 200809L /* not _GNU_SOURCE, which ties the library to the newest glibc */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY __attribute__((visibility("default")))
enum { NO_GPU = -1, MOST_GPUS = 64, MOST_MIG_DEVICES = 16, LONGEST_KEY = 160 };

static char *content;                                  /* of the file; the lines below point into it */
static struct { const char *key, *value; } *lines;
static size_t line_count;
static int gpu_count;

/* The value of a key, NULL if there is none; of two lines with the same key, the later one applies. */
static const char *value_of(const char *key) {
  for (size_t place = line_count; place-- > 0;)
    if (!strcmp(lines[place].key, key)) return lines[place].value;
  return NULL;
}

/* A value of one GPU (the name of "gpus.3.pcie.width" is "pcie.width"), or of the machine with NO_GPU. */
static const char *text(int gpu, const char *name) {
  char key[LONGEST_KEY];
  if (gpu == NO_GPU) return value_of(name);
  snprintf(key, sizeof key, "gpus.%d.%s", gpu, name);
  return value_of(key);
}

/* A number such as "350.125", and whether there is one. (strtod would expect the decimal comma of some locales.) */
static int has_number(int gpu, const char *name, double *number) {
  const char *value = text(gpu, name);
  char *end = NULL;
  double part = 1;
  if (!value) return 0;
  *number = (double)strtoll(value, &end, 10);
  if (end == value) return 0;
  if (*end == '.')
    while (*++end >= '0' && *end <= '9') *number += (*end - '0') * (part /= 10);
  return !*end;
}

static long long whole(int gpu, const char *name, long long otherwise) {
  double number;
  if (!has_number(gpu, name, &number)) return otherwise;
  return number > 9e18 ? 9000000000000000000 : number < -9e18 ? -9000000000000000000 : (long long)number;
}

/* A value of one entry in a GPU's list: listed(0, "processes", 1, "pid") is gpus.0.processes.1.pid. */
static const char *listed(int gpu, const char *list, int index, const char *name) {
  char key[LONGEST_KEY];
  snprintf(key, sizeof key, "%s.%d%s%s", list, index, *name ? "." : "", name);
  return text(gpu, key);
}

static long long listed_number(int gpu, const char *list, int index, const char *name, long long otherwise) {
  const char *value = listed(gpu, list, index, name);
  return value ? strtoll(value, NULL, 10) : otherwise;
}

static void capability(int gpu, int *major, int *minor) {
  const char *value = text(gpu, "compute_capability");
  *major = *minor = 0;
  if (value) sscanf(value, "%d.%d", major, minor);
}

/* The CUDA version as a number: "12.4" is 12040. */
static int cuda_version(void) {
  const char *value = text(NO_GPU, "cuda");
  int major = 0, minor = 0;
  if (value) sscanf(value, "%d.%d", &major, &minor);
  return major * 1000 + minor * 10;
}

static void pci_address(int gpu, unsigned *domain, unsigned *bus, unsigned *device) {
  const char *value = text(gpu, "pci_address");
  *domain = *bus = *device = 0;
  if (value) sscanf(value, "%x:%x:%x", domain, bus, device);
}

/* The GPU at "0000:01:00.0", in any notation; NO_GPU if there is none. */
static int gpu_at(const char *address) {
  unsigned domain, bus, device, own_domain, own_bus, own_device;
  if (!address || sscanf(address, "%x:%x:%x", &domain, &bus, &device) != 3) return NO_GPU;
  for (int gpu = 0; gpu < gpu_count; gpu++) {
    pci_address(gpu, &own_domain, &own_bus, &own_device);
    if (domain == own_domain && bus == own_bus && device == own_device) return gpu;
  }
  return NO_GPU;
}

static int mig_device_count(int gpu) {
  long long count = whole(gpu, "mig_mode", 0) == 1 ? whole(gpu, "mig_devices", 0) : 0;
  return count < 0 ? 0 : count > MOST_MIG_DEVICES ? MOST_MIG_DEVICES : (int)count;
}

static volatile sig_atomic_t wedged; /* a call holds the library's lock forever: no call of this process returns */

static void wait_for_ever(void) {
  for (;;) pause();
}

/* The code that a call must return instead of its result, 0 for none; hang, wedge and crash never return. */
static int carry_out(const char *key) {
  const char *value = value_of(key);
  if (!value) return 0;
  if (!strcmp(value, "wedge")) wedged = 1;
  if (wedged || !strcmp(value, "hang")) wait_for_ever();
  if (!strcmp(value, "crash")) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    abort();
  }
  return atoi(value);
}

/* The fault of a call. A name without version, such as nvmlInit for nvmlInit_v2, applies to every version. */
static int fault(const char *call, int gpu) {
  char key[LONGEST_KEY];
  const char *version = strstr(call, "_v");
  int lengths[] = {(int)strlen(call), version ? (int)(version - call) : 0};
  if (wedged) wait_for_ever();
  for (int place = 0; place < 2 && lengths[place]; place++) {
    int code = 0;
    snprintf(key, sizeof key, "fault.%d.%.*s", gpu, lengths[place], call);
    if (gpu != NO_GPU) code = carry_out(key);
    snprintf(key, sizeof key, "fault.%.*s", lengths[place], call);
    if (!code) code = carry_out(key);
    if (code) return code;
  }
  return 0;
}

/* At the start of every call: apply its fault. */
#define FAULT(gpu)                       \
  do {                                   \
    int fault_ = fault(__func__, (gpu)); \
    if (fault_) return fault_;           \
  } while (0)

static char *read_whole(const char *path) {
  FILE *file = fopen(path, "rb");
  size_t length = 0, room = 1 << 16;
  char *whole_text = file ? malloc(room) : NULL;
  while (whole_text) {
    length += fread(whole_text + length, 1, room - length - 1, file);
    if (length < room - 1) break;
    char *larger = realloc(whole_text, room *= 2);
    if (!larger) free(whole_text);
    whole_text = larger;
  }
  if (file) fclose(file);
  if (whole_text) whole_text[length] = 0;
  return whole_text;
}

/* Read once, when the library is opened. Without a machine there is no driver: cuInit and nvmlInit report that. */
__attribute__((constructor)) static void read_machine(void) {
  const char *path = getenv("TFGPU_DOCTOR_MACHINE");
  size_t room = 1;
  content = path ? read_whole(path) : NULL;
  if (!content) return;
  for (const char *each = content; *each; each++) room += *each == '\n';
  lines = calloc(room, sizeof *lines);
  if (!lines) return;
  for (char *line = content; line && *line;) {
    char *next = strchr(line, '\n'), *equals;
    if (next) *next++ = 0;
    if (*line != '#' && (equals = strchr(line, '='))) {
      *equals = 0;
      lines[line_count].key = line;
      lines[line_count++].value = equals + 1;
    }
    line = next;
  }
  long long count = whole(NO_GPU, "gpus", 0);
  gpu_count = count < 0 ? 0 : count > MOST_GPUS ? MOST_GPUS : (int)count;
}
