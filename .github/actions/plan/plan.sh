#!/usr/bin/env bash
# Runs olvmctl plan and keeps one comment of a pull request or a merge request up to date with it, also if the plan
# fails. It ends with 1 if the plan failed, and with 3 if it has what FAIL_ON names.
#
#   PLAN_ARGS  arguments of olvmctl plan, one a line, such as -f and clusters/
#   FAIL_ON    destroy, replace (or destroy), any, or nothing
#   MARK       tells comments of several plans apart
# GitHub: GITHUB_API_URL, GITHUB_REPOSITORY, PULL_REQUEST, GITHUB_TOKEN, RUN_URL; COMMENT_AUTHOR is the login of who has
# the token, if that is not the workflow's own.
# GitLab: CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID, PLAN_TOKEN, CI_JOB_URL.
set -euo pipefail
shopt -s inherit_errexit
umask 077

case "${FAIL_ON:-}" in
'' | destroy | replace | any) ;;
*) echo "FAIL_ON: $FAIL_ON is not known; write destroy, replace or any" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mark="<!-- olvmctl-plan ${MARK:-} -->"
link=${RUN_URL:-${CI_JOB_URL:-}}

mapfile -t args < <(printf '%s\n' "${PLAN_ARGS:?}" | sed '/^[[:space:]]*$/d')
code=0
olvmctl plan "${args[@]}" -o markdown --link "$link" >"$work/plan.md" 2>"$work/problems" || code=$?

# A plan begins with its summary. A program that crashes may end with 2, too, and one that is killed says nothing.
failed=
if { [ "$code" != 0 ] && [ "$code" != 2 ]; } || ! head -n 1 "$work/plan.md" | grep -q '^### Plan: '; then
  failed=yes
  [ -s "$work/problems" ] || echo "olvmctl plan ended with code $code" >"$work/problems"
fi

# What manifests of a stranger have in a message must be no command of the runner.
if [ -n "${GITHUB_ACTIONS:-}" ]; then
  stop=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
  echo "::stop-commands::$stop"
fi
cat "$work/problems" "$work/plan.md"
if [ -n "${GITHUB_ACTIONS:-}" ]; then
  echo "::$stop::"
fi

{
  echo "$mark"
  if [ -n "$failed" ]; then
    printf '### The plan failed\n\n'
    # In a fence that is longer than any in the message, of which a comment takes the end.
    fence=$(tail -c 20000 "$work/problems" | tr -c '`' '\n' | awk '{ if (length > n) n = length } END { n = n < 3 ? 3 : n + 1
      while (n-- > 0) printf "`" }')
    printf '%s\n%s\n%s\n\n' "$fence" "$(tail -c 20000 "$work/problems")" "$fence"
    head -c 30000 "$work/plan.md"
  else
    cat "$work/plan.md"
  fi
} | sed 's#^/# /#' >"$work/body.md" # a line that begins with a slash may be a command to GitLab
# The page of the workflow run shows it, also if there is no pull request to comment on.
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$work/body.md" >>"$GITHUB_STEP_SUMMARY"
fi

jq --raw-input --slurp '{body: .}' "$work/body.md" >"$work/body.json"

# call METHOD URL [FILE] asks the API with the token in a file: all processes of the machine see arguments.
call() {
  curl --fail --silent --show-error --max-time 60 --request "$1" --header "@$work/header" --header 'Content-Type: application/json' \
    ${3:+--data "@$3"} "$2" || { echo "the comment was not written: $1 $2 failed" >&2; return 1; }
}

# find URL prints the ID of the comment that has the mark and is written by whoever has the token; nothing for none.
find_comment() {
  local page=1 id count
  while :; do
    call GET "$1?per_page=100&page=$page" >"$work/page.json"
    id=$(jq -r --arg mark "$mark" --arg me "$me" \
      '[.[] | select((.body // "") | startswith($mark)) | select($me == "" or (.user // .author // {} | .login // .username) == $me)]
       | first | .id // empty' "$work/page.json")
    count=$(jq length "$work/page.json")
    if [ -n "$id" ] || [ "$count" -lt 100 ]; then
      echo "$id"
      return
    fi
    page=$((page + 1))
  done
}

# comment URL METHOD EDIT_URL writes the comment: it changes the one that is there, or makes one. EDIT_URL is where
# comments are changed by their ID.
comment() {
  local id
  id=$(find_comment "$1")
  if [ -n "$id" ]; then
    call "$2" "$3/$id" "$work/body.json" >/dev/null
  else
    call POST "$1" "$work/body.json" >/dev/null
  fi
}

if [ -n "${PULL_REQUEST:-}" ]; then
  printf 'Authorization: Bearer %s\n' "${GITHUB_TOKEN:?}" >"$work/header"
  me=${COMMENT_AUTHOR:-github-actions[bot]}
  comments="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues"
  comment "$comments/$PULL_REQUEST/comments" PATCH "$comments/comments"
elif [ -n "${CI_MERGE_REQUEST_IID:-}" ]; then
  printf 'PRIVATE-TOKEN: %s\n' "${PLAN_TOKEN:?}" >"$work/header"
  me=$(call GET "$CI_API_V4_URL/user" | jq -r .username)
  notes="$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
  comment "$notes" PUT "$notes"
fi

if [ -n "$failed" ]; then
  exit 1
fi

summary=$(grep -m 1 '^### Plan: ' "$work/plan.md")
deletes() { grep -Eq ', [0-9,]+ objects? to delete' <<<"$summary"; }
number() { sed -n "s/.*[ ,:]\([0-9,]*\) to $1.*/\1/p" <<<"$summary" | tr -d ,; }

if [ -n "${FAIL_ON:-}" ] && grep -q ' is not known offline' <<<"$summary"; then
  echo "the plan does not know what would change; plan without --offline" >&2
  exit 3
fi

case "${FAIL_ON:-}" in
any) [ "$code" = 0 ] || { echo "the plan has changes" >&2; exit 3; } ;;
replace) [ "$(number replace)" = 0 ] && [ "$(number destroy)" = 0 ] && ! deletes || { echo "the plan replaces or destroys machines, or deletes objects" >&2; exit 3; } ;;
destroy) [ "$(number destroy)" = 0 ] && ! deletes || { echo "the plan destroys machines, or deletes objects" >&2; exit 3; } ;;
esac
