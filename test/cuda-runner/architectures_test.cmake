# cmake -P: what cuda-runner is compiled for, by toolkit.
include(${CMAKE_CURRENT_LIST_DIR}/../../cuda-runner/architectures.cmake)

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
expect(13.0 "75;80;86;89;90;100;120"
  "Volta (compute capability 7.0) needs CUDA 12; it is left out, since this is CUDA 13.0.")
expect(14.2 "75;80;86;89;90;100;120"
  "Volta (compute capability 7.0) needs CUDA 12; it is left out, since this is CUDA 14.2.")
