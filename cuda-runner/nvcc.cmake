# The targets that need NVIDIA's compiler, RUNNEL_NVCC: the kernels compiled by it, cuda-runner, and the tests for a device.
include(${CMAKE_CURRENT_LIST_DIR}/architectures.cmake)
execute_process(COMMAND ${RUNNEL_NVCC} --version OUTPUT_VARIABLE NVCC_VERSION COMMAND_ERROR_IS_FATAL ANY)
choose_cuda_architectures("${NVCC_VERSION}" CUDA_ARCHITECTURES CUDA_ARCHITECTURES_NOTE)
if(RUNNEL_CUDA_ARCHITECTURES)
  set(CUDA_ARCHITECTURES ${RUNNEL_CUDA_ARCHITECTURES})
  set(CUDA_ARCHITECTURES_NOTE "")
endif()

# -Wno-deprecated-gpu-targets: CUDA 12 warns about architectures that CUDA 13 no longer has.
set(NVCC_FLAGS -std=c++20 -fmad=false --expt-relaxed-constexpr -Xcompiler -Wall,-Wextra,${SOURCE_PATHS}
  -Wno-deprecated-gpu-targets -I${CMAKE_SOURCE_DIR})

# Adds an object for each kernel source, in build folder `folder`; further arguments go to nvcc. The output of nvcc is kept
# beside the object, as *.ptxas.
function(add_kernel_objects objects folder)
  foreach(source ${CUDA_KERNELS})
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/cuda-runner ${source})
    set(object ${CMAKE_BINARY_DIR}/${folder}/${name}.o)
    get_filename_component(directory ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${directory})
    add_custom_command(
      OUTPUT ${object}
      COMMAND sh -c "\"$@\" 2>\"$0\" || { cat \"$0\"; exit 1; }" ${object}.ptxas
        ${RUNNEL_NVCC} ${NVCC_FLAGS} ${ARGN} -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} ${RUNNEL_NVCC}
      DEPFILE ${object}.d
      VERBATIM)
    list(APPEND all ${object})
  endforeach()
  set_source_files_properties(${all} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${objects} ${all} PARENT_SCOPE)
endfunction()

# For `make check`: three architectures, warnings as errors, with the report of ptxas on each kernel. A kernel that spills
# registers to memory loses the speed that it was written for.
add_kernel_objects(TESTED_OBJECTS nvcc -Werror all-warnings -Xptxas -v
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_120,code=sm_120)
add_custom_target(nvcc-objects DEPENDS ${TESTED_OBJECTS})
foreach(object ${TESTED_OBJECTS})
  file(RELATIVE_PATH name ${CMAKE_BINARY_DIR}/nvcc ${object})
  string(REGEX REPLACE "\\.o$" "" name ${name})
  add_test(NAME "nvcc: ${name} spills no registers"
    COMMAND sh -c "cat \"$0\"; grep -q 'bytes spill' \"$0\" && ! grep -q '[1-9][0-9]* bytes spill' \"$0\""
      ${object}.ptxas)
  # `make test` skips this label: a build with nvcc may not have compiled these objects.
  set_tests_properties("nvcc: ${name} spills no registers" PROPERTIES LABELS nvcc)
endforeach()

# A test of properties that only the machine code shows.
if(RUNNEL_CUOBJDUMP)
  add_test(NAME "nvcc: products load weights ahead, and nothing else is loaded by the read-only path"
    COMMAND python3 ${CMAKE_SOURCE_DIR}/test/cuda-runner/loads_under_way.py ${RUNNEL_CUOBJDUMP} ${TESTED_OBJECTS})
  set_tests_properties("nvcc: products load weights ahead, and nothing else is loaded by the read-only path"
    PROPERTIES LABELS nvcc)
endif()

# For cuda-runner. nvcc compiles four architectures of a file at a time (--threads 4), because the files of attention have by
# far the most code.
gencode_of("${CUDA_ARCHITECTURES}" GENCODE)
add_kernel_objects(CUDA_OBJECTS nvcc-all --threads 4 ${GENCODE})
add_library(cuda_kernels STATIC EXCLUDE_FROM_ALL ${CUDA_OBJECTS})
set_target_properties(cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)

get_filename_component(CUDA_TOOLKIT ${RUNNEL_NVCC}/../../include ABSOLUTE)
find_library(CUDART_STATIC libcudart_static.a HINTS ${CUDA_TOOLKIT}/../lib ${CUDA_TOOLKIT}/../lib64 REQUIRED)
add_library(cuda_host STATIC EXCLUDE_FROM_ALL ${CUDA_SOURCES})
target_include_directories(cuda_host SYSTEM PUBLIC ${CUDA_TOOLKIT})
# The CUDA runtime is linked statically, so that a machine needs nothing of CUDA but the driver.
target_link_libraries(cuda_host PUBLIC project_options runner INTERFACE cuda_kernels ${CUDART_STATIC} dl rt Threads::Threads)

add_executable(cuda-runner EXCLUDE_FROM_ALL cuda-runner/main.cc)
target_link_libraries(cuda-runner PRIVATE cuda_host runner_commands ${SERVING_COMMANDS})
set_target_properties(cuda-runner PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
list(JOIN CUDA_ARCHITECTURES ", " ARCHITECTURE_NAMES)
add_custom_command(TARGET cuda-runner POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E echo "cuda-runner has code for sm_${ARCHITECTURE_NAMES}. ${CUDA_ARCHITECTURES_NOTE}"
  VERBATIM)

# Programs for machines with a device: the tests of kernels and of whole models, and exactness. They are no tests of ctest,
# since other machines cannot run them.
file(GLOB CUDA_DEVICE_TEST_SOURCES CONFIGURE_DEPENDS test/cuda-runner/*_test.cc test/cuda-runner/kernels/*_test.cc)
add_executable(cuda-device-tests EXCLUDE_FROM_ALL
  test/cuda-runner/device_main.cc test/cuda-runner/cpu_twin.cc ${CUDA_DEVICE_TEST_SOURCES})
target_compile_options(cuda-device-tests PRIVATE -O1)
target_compile_definitions(cuda-device-tests PRIVATE RUNNEL_SOURCE_DIR=".")
target_link_libraries(cuda-device-tests PRIVATE cuda_host cpu_backend runner_commands doctest::doctest)
set(DEVICE_TESTS cuda-device-tests)
if(RUNNEL_PROTOBUF)
  add_executable(exactness-cuda EXCLUDE_FROM_ALL test/exactness/cuda_main.cc)
  target_link_options(exactness-cuda PRIVATE ${EXACTNESS_CUDA_LINK_OPTIONS})
  target_link_libraries(exactness-cuda PRIVATE exactness_program cuda_host)
  list(APPEND DEVICE_TESTS exactness-cuda)
endif()
set_target_properties(${DEVICE_TESTS} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_custom_target(device-tests DEPENDS cuda-runner ${DEVICE_TESTS})
