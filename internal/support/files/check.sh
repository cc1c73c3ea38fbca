#!/bin/bash
# Made by capolvm: succeeds while the load balancer of this VM answers.
exec timeout 2 /bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/{{.}}' 2>/dev/null
