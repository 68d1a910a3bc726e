# What needs NVIDIA's compiler, RUNNEL_NVCC: kernels as it sees them, cuda-runner, and its tests on a device.
include(${CMAKE_CURRENT_LIST_DIR}/architectures.cmake)
execute_process(COMMAND ${RUNNEL_NVCC} --version OUTPUT_VARIABLE NVCC_VERSION COMMAND_ERROR_IS_FATAL ANY)
choose_cuda_architectures("${NVCC_VERSION}" CUDA_ARCHITECTURES CUDA_ARCHITECTURES_NOTE)
if(RUNNEL_CUDA_ARCHITECTURES)
  set(CUDA_ARCHITECTURES ${RUNNEL_CUDA_ARCHITECTURES})
  set(CUDA_ARCHITECTURES_NOTE "")
endif()

# CUDA 12 warns of what CUDA 13 has left out.
set(NVCC_FLAGS -std=c++20 -fmad=false --expt-relaxed-constexpr -Xcompiler -Wall,-Wextra -Werror all-warnings
  -Wno-deprecated-gpu-targets -I${CMAKE_SOURCE_DIR})

# An object of each kernel source under folder. What nvcc says is kept beside it.
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

# For `make check`: two architectures, and what ptxas says of each kernel. Registers that are spilled to memory cost
# what the kernel was written for.
add_kernel_objects(TESTED_OBJECTS nvcc -Xptxas -v
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90)
add_custom_target(nvcc-objects DEPENDS ${TESTED_OBJECTS})
foreach(object ${TESTED_OBJECTS})
  file(RELATIVE_PATH name ${CMAKE_BINARY_DIR}/nvcc ${object})
  string(REGEX REPLACE "\\.o$" "" name ${name})
  add_test(NAME "nvcc: ${name} spills no registers"
    COMMAND sh -c "cat \"$0\"; grep -q 'bytes spill' \"$0\" && ! grep -q '[1-9][0-9]* bytes spill' \"$0\""
      ${object}.ptxas)
  # A build that has nvcc has not always compiled these.
  set_tests_properties("nvcc: ${name} spills no registers" PROPERTIES LABELS nvcc)
endforeach()

# What only the machine code shows.
if(RUNNEL_CUOBJDUMP)
  add_test(NAME "nvcc: products load weights ahead, and nothing else is loaded by the read-only path"
    COMMAND python3 ${CMAKE_SOURCE_DIR}/test/cuda-runner/loads_under_way.py ${RUNNEL_CUOBJDUMP} ${TESTED_OBJECTS})
  set_tests_properties("nvcc: products load weights ahead, and nothing else is loaded by the read-only path"
    PROPERTIES LABELS nvcc)
endif()

# For cuda-runner: machine code of every architecture, and of the last one also what a driver compiles for devices to
# come. Four architectures of a file at a time: attention has the most code by far.
foreach(architecture ${CUDA_ARCHITECTURES})
  list(APPEND GENCODE -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET CUDA_ARCHITECTURES -1 LAST_ARCHITECTURE)
list(APPEND GENCODE -gencode arch=compute_${LAST_ARCHITECTURE},code=compute_${LAST_ARCHITECTURE})
add_kernel_objects(CUDA_OBJECTS nvcc-all --threads 4 ${GENCODE})
add_library(cuda_kernels STATIC EXCLUDE_FROM_ALL ${CUDA_OBJECTS})
set_target_properties(cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)

get_filename_component(CUDA_TOOLKIT ${RUNNEL_NVCC}/../../include ABSOLUTE)
find_library(CUDART_STATIC libcudart_static.a HINTS ${CUDA_TOOLKIT}/../lib ${CUDA_TOOLKIT}/../lib64 REQUIRED)
add_library(cuda_host STATIC EXCLUDE_FROM_ALL ${CUDA_SOURCES})
target_include_directories(cuda_host SYSTEM PUBLIC ${CUDA_TOOLKIT})
# The runtime is linked in: a machine with a driver needs nothing else of CUDA.
target_link_libraries(cuda_host PUBLIC project_options runner INTERFACE cuda_kernels ${CUDART_STATIC} dl rt Threads::Threads)

add_executable(cuda-runner EXCLUDE_FROM_ALL cuda-runner/main.cc)
target_link_libraries(cuda-runner PRIVATE cuda_host runner_commands ${SERVING_COMMANDS})
set_target_properties(cuda-runner PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
list(JOIN CUDA_ARCHITECTURES ", " ARCHITECTURE_NAMES)
add_custom_command(TARGET cuda-runner POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E echo "cuda-runner has code for sm_${ARCHITECTURE_NAMES}. ${CUDA_ARCHITECTURES_NOTE}"
  VERBATIM)

# For machines that have a device, so not tests of ctest: the suites of kernels and of whole models, and exactness.
file(GLOB CUDA_DEVICE_TEST_SOURCES CONFIGURE_DEPENDS test/cuda-runner/*_test.cc test/cuda-runner/kernels/*_test.cc)
add_executable(cuda-device-tests EXCLUDE_FROM_ALL
  test/cuda-runner/device_main.cc test/cuda-runner/cpu_twin.cc ${CUDA_DEVICE_TEST_SOURCES})
target_compile_options(cuda-device-tests PRIVATE -O1)
target_compile_definitions(cuda-device-tests PRIVATE RUNNEL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
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
