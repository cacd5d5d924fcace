# `cmake --install BUILD`: installs the three programs, the client and worker libraries with their headers, the files by
# which pkg-config and CMake find them, the contract for other languages, man pages, and completion for shells.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reeve)

install(TARGETS reeve-manager reeve-worker reeve RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS reeve_client reeve_worker reeve_messages EXPORT reeve-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY client/include/reeve worker/include/reeve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/reeve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
  PATTERN envelope* EXCLUDE)
install(DIRECTORY proto/reeve DESTINATION ${CMAKE_INSTALL_DATADIR}/reeve/proto FILES_MATCHING PATTERN *.proto)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Man pages, and scripts by which shells complete command lines: the programs print them.
set(pages ${PROJECT_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/made
  COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man
  COMMAND reeve man ${pages}/man
  COMMAND reeve-manager --print-man >${pages}/man/reeve-manager.1
  COMMAND reeve-worker --print-man >${pages}/man/reeve-worker.1
  COMMAND reeve completion bash >${pages}/reeve.bash
  COMMAND reeve completion zsh >${pages}/_reeve
  COMMAND reeve completion fish >${pages}/reeve.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made
  DEPENDS reeve reeve-manager reeve-worker)
add_custom_target(reeve-pages ALL DEPENDS ${pages}/made)
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/reeve.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME reeve)
install(FILES ${pages}/_reeve DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${pages}/reeve.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(EXPORT reeve-targets NAMESPACE reeve:: DESTINATION ${package_dir})
configure_package_config_file(deploy/cmake/reeve-config.cmake.in reeve-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(reeve-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reeve-config.cmake ${PROJECT_BINARY_DIR}/reeve-config-version.cmake DESTINATION ${package_dir})

# A program that links a static library must also link its dependencies. A shared library loads them.
set(needs_packages "libprotobuf-c jansson libssl libcrypto")
set(needs_libraries "-lnng -lpthread")
if(BUILD_SHARED_LIBS)
  set(private .private)
endif()
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(library client worker)
  configure_file(deploy/cmake/reeve.pc.in reeve-${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/reeve-${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
