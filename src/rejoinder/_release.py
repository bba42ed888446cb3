"""The address of rejoinder, and whether it is published. They decide the links of the
package, and every install command in messages and pages: after a change, run `make docs`."""

REPOSITORY = "https://github.com/OWNER/rejoinder"
"""The address of the project. OWNER stands for an account until there is one: then nothing links to it."""

PUBLISHED = False
"""Whether pip finds it by its name. Until then, messages and pages name commands that work without that."""
