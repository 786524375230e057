// A CSI plugin of no real storage, run as a job: the one of the recorded conversations.

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The Python for which Debian packages gRPC. */
const PYTHON = '/usr/bin/python3';
const SOURCE = fileURLToPath(new URL('../conformance/csi/', import.meta.url));

/** Why this machine cannot run plugins, or ''. In CI it has to. */
export function missing() {
  let why = process.getuid() === 0 ? '' : 'tasks that mount need root';
  try {
    execFileSync(PYTHON, ['-c', 'import grpc, grpc_tools'], { stdio: 'ignore' });
  } catch {
    why = 'python3-grpcio and python3-grpc-tools are not installed';
  }
  if (why !== '' && process.env.CI) throw new Error(`in CI no story may be left out: ${why}`);
  return why;
}

/** Runs the plugin `disk` on an agent. */
export function run(agent) {
  const folder = join(agent.folder, 'plugin');
  mkdirSync(folder, { recursive: true });
  execFileSync(PYTHON, ['-m', 'grpc_tools.protoc', '-I', '.', `--python_out=${folder}`, `--grpc_python_out=${folder}`,
    'csi.proto'], { cwd: SOURCE });
  const program = join(folder, 'run.sh');
  writeFileSync(program, `#!/bin/sh\nPYTHONPATH=${folder} PYTHONDONTWRITEBYTECODE=1 exec ${PYTHON} ${SOURCE}plugin.py "$@"\n`);
  chmodSync(program, 0o755);
  return agent.ask('PUT', '/v1/jobs', { Job: { ID: 'plugin-disk', TaskGroups: [{ Name: 'plugin', Tasks: [{ Name: 'plugin',
    Driver: 'raw_exec', Config: { command: program, args: ['--id', 'disk'] },
    CSIPluginConfig: { ID: 'disk', Type: 'monolith', MountDir: '/csi' }, Resources: { CPU: 20, MemoryMB: 64 } }] }] } });
}
