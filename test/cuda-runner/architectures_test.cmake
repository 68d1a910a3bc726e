# Tests the choice of architectures for each toolkit. Run by cmake -P.
include(${CMAKE_CURRENT_LIST_DIR}/../../cuda-runner/architectures.cmake)

# A refusal ends the script, so expect_refusal runs this script again with REFUSED.
if(DEFINED REFUSED)
  choose_cuda_architectures("${REFUSED}" found note)
  return()
endif()

function(expect_refusal text wanted)
  execute_process(COMMAND ${CMAKE_COMMAND} "-DREFUSED=${text}" -P ${CMAKE_CURRENT_LIST_FILE}
    RESULT_VARIABLE status ERROR_VARIABLE sentence)
  string(REGEX REPLACE "[ \n]+" " " sentence "${sentence}")
  string(FIND "${sentence}" "${wanted}" place)
  if(status EQUAL 0 OR place EQUAL -1)
    message(FATAL_ERROR "\"${text}\" should be refused with \"${wanted}\", and gets: ${sentence}")
  endif()
endfunction()

function(expect release wanted wanted_note)
  choose_cuda_architectures("Cuda compilation tools, release ${release}, V${release}.88" found note)
  if(NOT "${found}" STREQUAL "${wanted}")
    message(FATAL_ERROR "CUDA ${release} is used for ${found}; it should be ${wanted}.")
  endif()
  if(NOT "${note}" STREQUAL "${wanted_note}")
    message(FATAL_ERROR "Of CUDA ${release} it is said: \"${note}\"; it should be \"${wanted_note}\".")
  endif()
endfunction()

expect(12.0 "70;75;80;86;89;90" "")
expect(12.9 "70;75;80;86;89;90" "")
expect(13.0 "75;80;86;89;90;100;110;120"
  "Volta (compute capability 7.0) needs CUDA 12; it is left out, since this is CUDA 13.0.")
expect(14.2 "75;80;86;89;90;100;110;120"
  "Volta (compute capability 7.0) needs CUDA 12; it is left out, since this is CUDA 14.2.")

expect_refusal("Cuda compilation tools, release 11.8, V11.8.89"
  "RUNNEL_NVCC is of CUDA 11.8; the kernels are C++20 and need CUDA 12 or newer.")
expect_refusal("g++ 12.2.0" "RUNNEL_NVCC must be NVIDIA's compiler")

# PTX is for devices that nobody has named.
gencode_of("80;90" flags)
if(NOT flags STREQUAL "-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_90,code=sm_90;-gencode;arch=compute_90,code=compute_90")
  message(FATAL_ERROR "Two architectures have the flags ${flags}")
endif()
gencode_of("90" flags)
if(NOT flags STREQUAL "-gencode;arch=compute_90,code=sm_90")
  message(FATAL_ERROR "One architecture has the flags ${flags}")
endif()
