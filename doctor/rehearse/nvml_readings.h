/* NVML's readings of a GPU: modes, memory errors, temperatures, power, clocks. Part of libnvidia_ml.c. */

/* The index of a word in a list of words; -1 if it is not in the list. */
static int place_in(const char *word, const char *const *words, int count) {
  for (int place = 0; word && place < count; place++)
    if (words[place] && !strcmp(words[place], word)) return place;
  return -1;
}

ENTRY nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned *mode) {
  static const char *const modes[] = {"default", "exclusive_thread", "prohibited", "exclusive_process"};
  DEVICE(device);
  int found = place_in(text(device->gpu, "compute_mode"), modes, 4);
  if (found < 0) return NOT_SUPPORTED;
  *mode = (unsigned)found;
  return SUCCESS;
}

NUMBER(nvmlDeviceGetPersistenceMode, "persistence_mode", 1)
NUMBER(nvmlDeviceGetPerformanceState, "performance_state", 1)

typedef struct { unsigned gpu, memory; } Utilization;

ENTRY nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilization *rates) {
  DEVICE(device);
  rates->memory = 0;
  give(device->gpu, "memory_utilization_percent", 1, &rates->memory);
  return give(device->gpu, "utilization_percent", 1, &rates->gpu);
}

ENTRY nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  DEVICE(device);
  nvmlReturn_t code = give(device->gpu, "ecc.mode", 1, current);
  *pending = *current;
  give(device->gpu, "ecc.pending_mode", 1, pending);
  return code;
}

/* type: 0 corrected, 1 uncorrected. counter: 0 volatile (since the driver was loaded), 1 aggregate (lifetime). */
static nvmlReturn_t give_ecc(int gpu, unsigned type, unsigned counter, u64 *count) {
  static const char *const keys[] = {"ecc.volatile_corrected", "ecc.volatile_uncorrected", "ecc.aggregate_corrected",
                                     "ecc.aggregate_uncorrected"};
  if (type > 1 || counter > 1) return INVALID_ARGUMENT;
  return whole(gpu, "ecc.mode", 0) == 1 ? give_wide(gpu, keys[counter * 2 + type], count) : NOT_SUPPORTED;
}

ENTRY nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter, u64 *count) {
  DEVICE(device);
  return give_ecc(device->gpu, type, counter, count);
}

/* All errors are in the device memory (location 2), none in the caches. */
ENTRY nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                   unsigned location, u64 *count) {
  DEVICE(device);
  nvmlReturn_t code = give_ecc(device->gpu, type, counter, count);
  if (!code && location != 2) *count = 0;
  return code;
}

ENTRY nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                             unsigned *pending, unsigned *failed) {
  DEVICE(device);
  give(device->gpu, "remapped_rows.uncorrected", 1, uncorrected);
  give(device->gpu, "remapped_rows.pending", 1, pending);
  give(device->gpu, "remapped_rows.failed", 1, failed);
  return give(device->gpu, "remapped_rows.corrected", 1, corrected);
}

typedef struct { unsigned version; u64 counts[11]; unsigned threshold_exceeded; } SramErrors;

/* Errors in the caches only; the machine's file does not contain their counts. */
ENTRY nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, SramErrors *errors) {
  DEVICE(device);
  if ((errors->version & 0xffffff) != sizeof *errors) return VERSION_MISMATCH;
  memset(errors->counts, 0, sizeof errors->counts);
  return give(device->gpu, "ecc.sram_threshold_exceeded", 1, &errors->threshold_exceeded);
}

/* Memory banks by their remaining spare rows: all, most, some, few, none. */
ENTRY nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, unsigned banks[5]) {
  static const char *const keys[] = {"remapped_rows.banks_all_spare", "remapped_rows.banks_most_spare",
                                     "remapped_rows.banks_some_spare", "remapped_rows.banks_few_spare",
                                     "remapped_rows.banks_none_spare"};
  nvmlReturn_t code = SUCCESS;
  DEVICE(device);
  for (int place = 0; place < 5 && !code; place++) code = give(device->gpu, keys[place], 1, &banks[place]);
  return code;
}

/* cause: 0 several corrected errors, 1 one uncorrected error. The addresses of the pages are made up. */
static nvmlReturn_t give_pages(nvmlDevice_t device, unsigned cause, unsigned *count, u64 *addresses, u64 *times,
                               const char *call) {
  if (!users) return UNINITIALIZED;
  int code = fault(call, device->gpu);
  unsigned found = 0, room = addresses ? *count : 0;
  if (!code) code = give(device->gpu, cause ? "retired_pages.uncorrected" : "retired_pages.corrected", 1, &found);
  if (code) return code;
  *count = found;
  if (found > room) return INSUFFICIENT_SIZE;
  for (unsigned page = 0; page < found; page++) {
    addresses[page] = 0x1000 * (page + 1);
    if (times) times[page] = 0;
  }
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count, u64 *addresses) {
  return give_pages(device, cause, count, addresses, NULL, __func__);
}
ENTRY nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count, u64 *addresses,
                                                u64 *times) {
  return give_pages(device, cause, count, addresses, times, __func__);
}
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages.pending", 1)

ENTRY nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius) {
  DEVICE(device);
  return sensor ? INVALID_ARGUMENT : give(device->gpu, "temperature_c.gpu", 1, celsius);
}

typedef struct { unsigned version, sensor; int celsius; } Temperature;

ENTRY nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, Temperature *temperature) {
  DEVICE(device);
  int code = fault("nvmlDeviceGetTemperature", device->gpu);
  return code ? code : give(device->gpu, "temperature_c.gpu", 1, (unsigned *)&temperature->celsius);
}

ENTRY nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned kind, unsigned *celsius) {
  static const char *const keys[] = {"temperature_c.shutdown", "temperature_c.slowdown", "temperature_c.memory_max",
                                     "temperature_c.gpu_max"};
  DEVICE(device);
  return kind < 4 ? give(device->gpu, keys[kind], 1, celsius) : NOT_SUPPORTED;
}

typedef struct { unsigned version; int celsius; } Margin;

ENTRY nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, Margin *margin) {
  double number;
  DEVICE(device);
  if (!has_number(device->gpu, "temperature_c.margin", &number)) return NOT_SUPPORTED;
  margin->celsius = (int)number;
  return SUCCESS;
}

NUMBER(nvmlDeviceGetFanSpeed, "fan_percent", 1)
NUMBER(nvmlDeviceGetPowerUsage, "power_w.draw", 1000)
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_w.limit", 1000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_w.enforced_limit", 1000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_w.default_limit", 1000)

ENTRY nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least, unsigned *most) {
  DEVICE(device);
  give(device->gpu, "power_w.max_limit", 1000, most);
  return give(device->gpu, "power_w.min_limit", 1000, least);
}

static const char *const clocks[] = {"clocks_mhz.graphics", "clocks_mhz.sm", "clocks_mhz.memory", "clocks_mhz.video"};
static const char *const most_clocks[] = {"clocks_mhz.max_graphics", "clocks_mhz.max_sm", "clocks_mhz.max_memory",
                                          "clocks_mhz.max_video"};

ENTRY nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned kind, unsigned *mhz) {
  DEVICE(device);
  return kind < 4 ? give(device->gpu, clocks[kind], 1, mhz) : INVALID_ARGUMENT;
}

ENTRY nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned kind, unsigned *mhz) {
  DEVICE(device);
  return kind < 4 ? give(device->gpu, most_clocks[kind], 1, mhz) : INVALID_ARGUMENT;
}

/* Bits of nvmlClocksEventReasons, lowest first. */
static const char *const reasons[] = {
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting", "board_limit", "reliability",
};
enum { REASONS = sizeof reasons / sizeof *reasons };

static nvmlReturn_t give_reasons(nvmlDevice_t device, u64 *bits, const char *call) {
  if (!users) return UNINITIALIZED;
  int code = fault(call, device->gpu);
  long long count = whole(device->gpu, "throttle_reasons", -1);
  if (code || count < 0) return code ? code : NOT_SUPPORTED;
  *bits = 0;
  for (int place = 0; place < count; place++) {
    int bit = place_in(listed(device->gpu, "throttle_reasons", place, ""), reasons, REASONS);
    if (bit >= 0) *bits |= 1ull << bit;
  }
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, u64 *bits) {
  return give_reasons(device, bits, __func__);
}
ENTRY nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, u64 *bits) {
  return give_reasons(device, bits, __func__);
}

ENTRY nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, u64 *bits) {
  DEVICE(device);
  *bits = (1ull << REASONS) - 1;
  return SUCCESS;
}
ENTRY nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, u64 *bits) {
  DEVICE(device);
  *bits = (1ull << REASONS) - 1;
  return SUCCESS;
}

typedef struct {
  unsigned id, scope;
  long long timestamp, latency_us;
  unsigned type;
  nvmlReturn_t code;
  u64 value;
} Field;

/* Numbers of NVML_FI_DEV_*: those that the machine's file contains. */
static const struct { unsigned id; const char *key; } fields[] = {
    {1, "ecc.mode"}, {3, "ecc.volatile_corrected"}, {4, "ecc.volatile_uncorrected"}, {5, "ecc.aggregate_corrected"},
    {6, "ecc.aggregate_uncorrected"}, {29, "retired_pages.corrected"}, {30, "retired_pages.uncorrected"},
    {31, "retired_pages.pending"}, {82, "temperature_c.memory"}, {91, "nvlinks"}, {94, "pcie.replays"},
    {142, "remapped_rows.corrected"}, {143, "remapped_rows.uncorrected"}, {144, "remapped_rows.pending"},
    {145, "remapped_rows.failed"},
};

enum { NVLINK_COUNT = 91, RECOVERY_ACTION = 230 };

static nvmlReturn_t give_recovery_action(int gpu, u64 *action) {
  static const char *const actions[] = {"none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset",
                                        "recover_imex_domain", "bus_reset", "system_reboot"};
  int found = place_in(text(gpu, "recovery_action"), actions, 8);
  if (found < 0) return NOT_SUPPORTED;
  *action = (u64)found;
  return SUCCESS;
}

ENTRY nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, Field *asked) {
  DEVICE(device);
  for (int place = 0; place < count; place++) {
    Field *field = &asked[place];
    field->timestamp = field->latency_us = 0;
    field->type = field->id == NVLINK_COUNT ? 1 : 3; /* NVML_VALUE_TYPE_UNSIGNED_INT, _UNSIGNED_LONG_LONG */
    field->value = 0;
    field->code = field->id == RECOVERY_ACTION ? give_recovery_action(device->gpu, &field->value) : NOT_SUPPORTED;
    for (size_t row = 0; row < sizeof fields / sizeof *fields; row++)
      if (fields[row].id == field->id) field->code = give_wide(device->gpu, fields[row].key, &field->value);
  }
  return SUCCESS;
}
