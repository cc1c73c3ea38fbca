# install_new FILE PATH MODE [OWNER] puts a file in its place; it fails where nothing has changed. The folder is root's: a user
# who could write there would have root follow links.
install_new() {
    if [ -n "${4:-}" ] && [ -f "$2" ]; then chown "$4" "$2"; fi
    if cmp --silent "$1" "$2"; then return 1; fi
    install -D --mode "$3" ${4:+--owner "$4"} "$1" "$2.new"
    mv "$2.new" "$2"
}
