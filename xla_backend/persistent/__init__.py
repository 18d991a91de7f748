"""What is kept on disk from one process to the next. Knows nothing of compiling.

settings        whether, where and how much; changed by whoever has options for it
private_files   files and directories that nobody but this user can have written
entry_format    an entry as bytes
store           entries by key, the ones used last, up to a limit
installed       entries that come with the installation
sources         a digest of the compiler's own source files
events          what became of requests, for whoever counts
"""
