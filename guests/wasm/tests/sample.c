/* What wasm2c 1.0.32 writes of a small module, without the header that it begins with: test_build.py rewrites it. */
static bool s_module_initialized = false;

static u32 func_types[6];

static void init_func_types(void) {
  func_types[0] = wasm_rt_register_func_type(2, 1, WASM_RT_I32, WASM_RT_I32, WASM_RT_I32);
  func_types[1] = wasm_rt_register_func_type(2, 1, WASM_RT_I32, WASM_RT_I32, WASM_RT_I32);
  func_types[2] = wasm_rt_register_func_type(1, 1, WASM_RT_I32, WASM_RT_I32);
  func_types[3] = wasm_rt_register_func_type(1, 0, WASM_RT_I32);
  func_types[4] = wasm_rt_register_func_type(0, 0);
  func_types[5] = wasm_rt_register_func_type(0, 1, WASM_RT_I32);
}

static u32 w2c_f2(Z_sample_instance_t*, u32, u32);
static void w2c_f3(Z_sample_instance_t*);
static void w2c__initialize(Z_sample_instance_t*);
static u32 w2c_sbx_start(Z_sample_instance_t*);
static u32 w2c_sbx_prepare(Z_sample_instance_t*);
static u32 w2c_sbx_request(Z_sample_instance_t*);
static void w2c_sbx_resume(Z_sample_instance_t*, u32);

static void init_globals(Z_sample_instance_t* instance) {
  instance->w2c_g0 = 65536u;
}


static void init_memories(Z_sample_instance_t* instance) {
  wasm_rt_allocate_memory(&instance->w2c_memory, 2, 65536);
}
static const wasm_elem_segment_expr_t elem_segment_exprs_w2c_e0[] = {
  {1, (wasm_rt_function_ptr_t)&w2c_f2, 0},
  {4, (wasm_rt_function_ptr_t)&w2c_f3, 0},
};

static void init_tables(Z_sample_instance_t* instance) {
  wasm_rt_allocate_funcref_table(&instance->w2c_T0, 4, 4294967295);
  funcref_table_init(&instance->w2c_T0, elem_segment_exprs_w2c_e0, 2, 1u, 0, 2, instance, func_types);
}

static void init_elem_instances(Z_sample_instance_t *instance) {
}

static u32 w2c_f2(Z_sample_instance_t* instance, u32 w2c_p0, u32 w2c_p1) {
  FUNC_PROLOGUE;
  u32 w2c_i0, w2c_i1;
  w2c_i0 = w2c_p0;
  w2c_i1 = w2c_p1;
  w2c_i0 += w2c_i1;
  FUNC_EPILOGUE;
  return w2c_i0;
}

static void w2c_f3(Z_sample_instance_t* instance) {
  FUNC_PROLOGUE;
  u32 w2c_i0;
  w2c_i0 = 1u;
  (*Z_sbxZ_interrupt_mark)(instance->Z_sbx_instance, w2c_i0);
  FUNC_EPILOGUE;
}

static void w2c__initialize(Z_sample_instance_t* instance) {
  FUNC_PROLOGUE;
  FUNC_EPILOGUE;
}

static u32 w2c_sbx_start(Z_sample_instance_t* instance) {
  FUNC_PROLOGUE;
  u32 w2c_i0, w2c_i1, w2c_i2;
  w2c_i0 = instance->w2c_g0;
  w2c_i1 = 16u;
  w2c_i0 -= w2c_i1;
  instance->w2c_g0 = w2c_i0;
  w2c_i0 = instance->w2c_g0;
  w2c_i1 = 1u;
  w2c_i1 = wasm_rt_grow_memory(&instance->w2c_memory, w2c_i1);
  i32_store(&instance->w2c_memory, (u64)(w2c_i0) + 8, w2c_i1);
  w2c_i0 = 0u;
  w2c_i1 = 8u;
  w2c_i2 = 4u;
  memory_copy(&instance->w2c_memory, &instance->w2c_memory, w2c_i0, w2c_i1, w2c_i2);
  w2c_i0 = 0u;
  w2c_i1 = 8u;
  w2c_i2 = 4u;
  memory_fill(&instance->w2c_memory, w2c_i0, w2c_i1, w2c_i2);
  w2c_i0 = 40u;
  w2c_i1 = instance->w2c_memory.pages;
  w2c_i2 = 1u;
  w2c_i0 = CALL_INDIRECT(instance->w2c_T0, u32 (*)(void*, u32, u32), 0, w2c_i2, instance->w2c_T0.data[w2c_i2].module_instance, w2c_i0, w2c_i1);
  FUNC_EPILOGUE;
  return w2c_i0;
}

static u32 w2c_sbx_prepare(Z_sample_instance_t* instance) {
  FUNC_PROLOGUE;
  u32 w2c_i0;
  w2c_i0 = 9u;
  w2c_i0 = (*Z_wasi_snapshot_preview1Z_fd_close)(instance->Z_wasi_snapshot_preview1_instance, w2c_i0);
  FUNC_EPILOGUE;
  return w2c_i0;
}

static u32 w2c_sbx_request(Z_sample_instance_t* instance) {
  FUNC_PROLOGUE;
  u32 w2c_i0;
  w2c_i0 = 4294967295u;
  w2c_i0 = i32_load(&instance->w2c_memory, (u64)(w2c_i0) + 4294967295u);
  FUNC_EPILOGUE;
  return w2c_i0;
}

static void w2c_sbx_resume(Z_sample_instance_t* instance, u32 w2c_p0) {
  FUNC_PROLOGUE;
  UNREACHABLE;
  FUNC_EPILOGUE;
}

/* export: 'memory' */
wasm_rt_memory_t* Z_sampleZ_memory(Z_sample_instance_t* instance) {
  return &instance->w2c_memory;
}

/* export: '_initialize' */
void Z_sampleZ__initialize(Z_sample_instance_t* instance) {
  return w2c__initialize(instance);
}

/* export: 'sbx_start' */
u32 Z_sampleZ_sbx_start(Z_sample_instance_t* instance) {
  return w2c_sbx_start(instance);
}

/* export: 'sbx_prepare' */
u32 Z_sampleZ_sbx_prepare(Z_sample_instance_t* instance) {
  return w2c_sbx_prepare(instance);
}

/* export: 'sbx_request' */
u32 Z_sampleZ_sbx_request(Z_sample_instance_t* instance) {
  return w2c_sbx_request(instance);
}

/* export: 'sbx_resume' */
void Z_sampleZ_sbx_resume(Z_sample_instance_t* instance, u32 w2c_p0) {
  return w2c_sbx_resume(instance, w2c_p0);
}

static void init_instance_import(Z_sample_instance_t* instance, struct Z_sbx_instance_t* Z_sbx_instance, struct Z_wasi_snapshot_preview1_instance_t* Z_wasi_snapshot_preview1_instance){
  instance->Z_sbx_instance = Z_sbx_instance;
  instance->Z_wasi_snapshot_preview1_instance = Z_wasi_snapshot_preview1_instance;
}

void Z_sample_init_module(void) {
  assert(wasm_rt_is_initialized());
  s_module_initialized = true;
  init_func_types();
}

void Z_sample_instantiate(Z_sample_instance_t* instance, struct Z_sbx_instance_t* Z_sbx_instance, struct Z_wasi_snapshot_preview1_instance_t* Z_wasi_snapshot_preview1_instance) {
  assert(wasm_rt_is_initialized());
  assert(s_module_initialized);
  init_instance_import(instance, Z_sbx_instance, Z_wasi_snapshot_preview1_instance);
  init_globals(instance);
  init_memories(instance);
  init_tables(instance);
  init_elem_instances(instance);
}

void Z_sample_free(Z_sample_instance_t* instance) {
  wasm_rt_free_funcref_table(&instance->w2c_T0);
  wasm_rt_free_memory(&instance->w2c_memory);
}
