"""Hooks of mkdocs: the README of the repository is the first page, and links out of docs lead to the repository."""

import os
import posixpath
import re

from mkdocs.structure.files import File

REPOSITORY = "https://github.com/capolvm/cluster-api-provider-olvm"
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def on_files(files, config):
    root = os.path.dirname(config.docs_dir)
    with open(os.path.join(root, "README.md"), encoding="utf-8") as readme:
        files.append(File.generated(config, "index.md", content=readme.read()))

    return files


def on_page_markdown(markdown, page, config, files):
    at = "" if page.file.src_uri == "index.md" else posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    root = os.path.dirname(config.docs_dir)
    return LINK.sub(lambda match: match[1] + target(match[2], at, root, page, files) + match[3], markdown)


def target(link, at, root, page, files):
    """The link as it is on the site: to a page or an image, or to a file of the repository at the version of the site."""
    if "://" in link or link.startswith("mailto:"):
        return link

    path = posixpath.normpath(posixpath.join(at, link))
    inside = posixpath.relpath(path, "docs") if path.startswith("docs/") else None
    if inside and files.get_file_from_path(inside):
        return posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or ".")

    if not os.path.exists(os.path.join(root, path)):
        return link  # mkdocs says that it leads nowhere

    return f"{REPOSITORY}/blob/{os.environ.get('SITE_REF', 'main')}/{path}"
