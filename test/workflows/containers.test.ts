import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { ended, eventsOf, register, runStates, start, workflowYaml } from '../support/workflows.ts'
import { destroyAll, openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

const REGISTRY_LOGIN = 'robot:a-token-of-the-registry'

let app: TestApp
beforeAll(async () => {
  vi.stubEnv('REGISTRY_LOGIN', REGISTRY_LOGIN)
  app = await openWorkspaceApp({
    config: { 'workflows.images': ['alpine=host'], 'executions.secrets': ['ci/registry env:REGISTRY_LOGIN'] },
  })
})
afterAll(async () => {
  await destroyAll(app)
  await app[Symbol.asyncDispose]()
  vi.unstubAllEnvs()
})

describe('ContainerRun', () => {
  it('runs its words without a shell, and says that the image was another', async () => {
    const run = await runStates(
      app,
      'words',
      `A: { kind: ContainerRun, name: c, image: "docker.io/library/alpine:3.20", command: ["printf", "%s|", "$HOME; {{input.evil}}", "{{input.nothing}}", "b"], env: { X: "{{input.evil}}" }, transitions: [{ condition: exit_code_zero, target: B }] }
B: { kind: ContainerRun, name: d, image: host, shell: true, command: ["echo", "$X |", "cat"], env: { X: "by a shell" }, transitions: [] }`,
      {
        metadata: 'input_schema: { type: object, properties: { evil: { type: string }, nothing: { type: string } } }',
        run: { input: { evil: "'; touch /tmp/owned; '" } },
      },
    )
    expect(run.blackboard['A']).toMatchObject({
      status: 'success',
      exit_code: 0,
      stdout: "$HOME; '; touch /tmp/owned; '|b|",
      output: { exit_code: 0, attempts: 1 },
    })
    expect(run.blackboard['B']).toMatchObject({ stdout: 'by a shell\n' })
    const substituted = (await eventsOf(app, run.execution_id)).filter(
      ({ event_type }) => event_type === 'container_image_substituted',
    )
    expect(substituted).toMatchObject([{ payload: { image: 'docker.io/library/alpine:3.20', used: 'host' } }])
  })

  it('takes credentials of a registry that are set, and shows them to nobody', async () => {
    const step = (credentials: string) =>
      `A: { kind: ContainerRun, name: a, image: host, command: [env], registry_credentials: "${credentials}", transitions: [] }`
    for (const [name, credentials] of [
      ['by-vault', 'vault:ci/registry'],
      ['by-secret', 'secret:ci/registry'],
      ['by-name', 'ci/registry'],
    ] as const) {
      const run = await runStates(app, name, step(credentials))
      expect(run).toMatchObject({ status: 'completed', blackboard: { A: { exit_code: 0 } } })
      expect(JSON.stringify([run, await eventsOf(app, run.execution_id)])).not.toContain(REGISTRY_LOGIN)
    }
    const other = await app.keyCaller({ tenant: 'acme', role: 'admin', tier: 'system' })
    const manifest_yaml = workflowYaml('theirs', step('vault:ci/registry'))
    expect((await app.refusal('aegis.workflow.create', { manifest_yaml }, other)).message).toContain('is not set')
  })

  it('runs on no other image than its own if it says so', async () => {
    const run = await runStates(
      app,
      'strict',
      `A: { kind: ContainerRun, name: a, image: host, image_pull_policy: Never, command: ["true"], transitions: [{ condition: on_success, target: B }] }
B: { kind: ContainerRun, name: b, image: "docker.io/library/alpine:3.20", image_pull_policy: Never, command: ["true"], transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'failed', current_state: 'B', blackboard: { A: { exit_code: 0 } } })
    expect(run.blackboard['B']?.['error']).toContain('there is no image')
  })

  it('tries again as often as it may, and reports the last attempt', async () => {
    const run = await runStates(
      app,
      'again',
      `A: { kind: ContainerRun, name: c, image: host, command: ["sh", "-c", "echo x >> tries; echo $(wc -l < tries); test $(wc -l < tries) -ge 3"], retry: { max_attempts: 4, backoff: 10ms }, transitions: [{ condition: on_success, target: B }] }
B: { kind: ContainerRun, name: d, image: host, command: ["false"], retry: { max_attempts: 2 }, transitions: [] }`,
    )
    expect(run.blackboard['A']).toMatchObject({ stdout: '3\n', attempts: 3 })
    expect(run).toMatchObject({ status: 'failed', blackboard: { B: { attempts: 2, exit_code: 1 } } })
  })

  it('shows volumes where they are wanted, and keeps what a step may write', async () => {
    const run = await runStates(
      app,
      'volumes',
      `WRITE: { kind: ContainerRun, name: w, image: host, command: ["sh", "-c", "echo one > /data/file; ln -s file /data/link; echo two > note"], volumes: [{ name: data, mount_path: /data }], transitions: [{ condition: on_success, target: LOOK }] }
LOOK: { kind: ContainerRun, name: l, image: host, command: ["sh", "-c", "cat /mnt/in/link /workspace/note; echo changed > /mnt/in/file; echo leak > /opt/leak; echo three > /workspace/note"], volumes: [{ name: data, mount_path: /mnt/in, read_only: true }, { name: workspace, mount_path: /workspace }], read_only_root_filesystem: true, network_mode: none, transitions: [{ condition: on_success, target: AFTER }] }
AFTER: { kind: System, command: "cat /volumes/data/file /workspace/note; ls /opt/leak", transitions: [{ condition: always, target: END }] }
END: { kind: System, command: update_blackboard, transitions: [] }`,
      { spec: 'storage: { shared_volumes: [{ name: data }] }' },
    )
    expect(run.blackboard['LOOK']).toMatchObject({ exit_code: 0, stdout: 'one\ntwo\n' })
    expect(run.blackboard['AFTER']).toMatchObject({ exit_code: 2, stdout: 'one\nthree\n' })
    expect(await rowsFor(app)).toEqual([])
  })

  it('finds a volume in the workspace that the blackboard names for it, and leaves there what a step may write', async () => {
    const { workspace_id } = await app.ask<{ workspace_id: string }>('workspace_create', { name: 'library' })
    const sh = (command: string) => app.ask<{ stdout: string }>('exec', { workspace_id, command })
    await sh('echo kept > /workspace/book')
    const run = await runStates(
      app,
      'lent',
      `A: { kind: ContainerRun, name: a, image: host, command: ["sh", "-c", "cat book; echo new > made; echo own > /src/note"], volumes: [{ name: books, mount_path: /books }, { name: src, mount_path: /src }], workdir: /books, transitions: [{ condition: on_success, target: B }] }
B: { kind: ContainerRun, name: b, image: host, command: ["sh", "-c", "cat made /workspace/note; echo lost > gone"], volumes: [{ name: books, mount_path: /b, read_only: true }, { name: workspace, mount_path: /workspace }], workdir: /b, transitions: [] }`,
      {
        spec: 'storage: { workspace: { blackboard_key: src_volume_id } }',
        run: { blackboard: { books_volume_id: workspace_id } },
      },
    )
    expect(run.blackboard['A']).toMatchObject({ exit_code: 0, stdout: 'kept\n' })
    expect(run.blackboard['B']).toMatchObject({ exit_code: 0, stdout: 'new\nown\n' })
    expect((await sh('ls /workspace')).stdout).toBe('book\nmade\n')
    await app.ask('workspace_destroy', { workspace_id })
    const states =
      'A: { kind: ContainerRun, name: a, image: host, command: [ls], volumes: [{ name: books, mount_path: /b }], transitions: [] }'
    const without = await runStates(app, 'not-lent', states, { run: { blackboard: { books_volume_id: workspace_id } } })
    expect(without).toMatchObject({ status: 'failed', blackboard: { A: { error_code: 'ERR_WORKSPACE_NOT_FOUND' } } })
  })

  it('gives a step the network that it asks for, and takes it away again', async () => {
    const probe = 'ip route 2>/dev/null | grep -c default || true'
    const run = await runStates(
      app,
      'net',
      `A: { kind: ContainerRun, name: a, image: host, network_mode: bridge, command: ["true"], transitions: [{ condition: on_success, target: B }] }
B: { kind: System, command: "${probe}", transitions: [] }`,
    )
    expect(run.status).toBe('completed')
    const policies = (await app.log()).filter(({ tool }) => tool === 'network_policy')
    expect(policies.map(({ outcome }) => outcome)).toEqual(['ok', 'ok'])
  })

  it('has no network at all where it wants none, whatever its workspace may reach otherwise', async () => {
    await app.ask('workspace_create', { name: 'guarded' })
    const open = { allow_internet: false, allow_inter_vm: true, allowed_domains: ['example.org'] }
    await app.ask('network_policy', { workspace_id: 'guarded', ...open })
    const states =
      'A: { kind: ContainerRun, name: a, image: host, network_mode: none, command: [sh, -c, "until test -e go; do sleep 0.1; done"], transitions: [] }'
    await register(app, workflowYaml('quiet', states, { spec: 'storage: { workspace: { volume_id: guarded } }' }))
    const id = await start(app, 'quiet')
    const policy = async () =>
      (await app.ask<{ network: object }>('workspace_info', { workspace_id: 'guarded' })).network
    const closed = { allow_internet: false, allow_inter_vm: false, allowed_domains: [] }
    await expect.poll(policy).toMatchObject(closed)
    await app.ask('exec', { workspace_id: 'guarded', command: 'touch go' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed' })
    expect(await policy()).toMatchObject(open)
    await app.ask('workspace_destroy', { workspace_id: 'guarded' })
  })

  it('is ended when its time is over', async () => {
    const run = await runStates(
      app,
      'slow-container',
      `A: { kind: ContainerRun, name: c, image: host, command: ["sleep", "60"], resources: { timeout: 1s }, transitions: [{ condition: on_failure, target: B }] }
B: { kind: System, command: update_blackboard, transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'completed', blackboard: { A: { timeout: true, status: 'failed' } } })
  })

  it('has one time for all attempts, however much each of them may take', async () => {
    const run = await runStates(
      app,
      'slow-attempts',
      `A: { kind: ContainerRun, name: c, image: host, command: ["sh", "-c", "echo tried; sleep 60"], timeout: 1s, resources: { timeout: 90s }, retry: { max_attempts: 9, backoff: 90s }, transitions: [{ condition: timeout, target: B }] }
B: { kind: ParallelContainerRun, timeout: 1s, completion: all_succeed, steps: [{ name: s, image: host, command: [sleep, "60"], resources: { timeout: 90s } }], transitions: [{ condition: on_failure, target: C }] }
C: { kind: System, command: update_blackboard, transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'completed', current_state: 'C' })
    expect(run.blackboard['A']).toMatchObject({ timeout: true, attempts: 1, stdout: 'tried\n' })
    expect(run.blackboard['B']).toMatchObject({ output: { s: { timeout: true } } })
  })

  it('gives its output to a handler, whose answer takes its place', async () => {
    const handled = (tool: string, more: string) => `output_handler: { type: mcp_tool, tool_name: ${tool}, ${more} }`
    const run = await runStates(
      app,
      'handled',
      `A: { kind: ContainerRun, name: a, image: host, command: [echo, words], ${handled('aegis.tools.search', 'arguments: { query: "{{output.stdout}}" }')}, transitions: [{ condition: on_success, target: B }] }
B: { kind: ContainerRun, name: b, image: host, command: [echo, x], ${handled('cmd.run', 'timeout_seconds: 1, arguments: { command: sleep, args: ["50"] }')}, transitions: [{ condition: on_success, target: C }] }
C: { kind: ContainerRun, name: c, image: host, command: [echo, x], ${handled('no.such.tool', 'required: true')}, transitions: [{ condition: on_failure, target: D }] }
D: { kind: System, command: update_blackboard, transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'completed', current_state: 'D' })
    expect(run.blackboard['A']).toMatchObject({ handled: true, output: { query: 'words\n' } })
    expect(run.blackboard['B']).toMatchObject({ stdout: 'x\n', output_handler_error: 'it took longer than 1 s' })
    expect(run.blackboard['C']).toMatchObject({ status: 'failed', error: expect.stringContaining('output handler') })
  })
})

describe('ParallelContainerRun', () => {
  const steps = `[{ name: good, image: host, command: ["echo", "fine"] }, { name: bad, image: host, command: ["sh", "-c", "exit 4"] }]`
  it.each([
    ['all_succeed', false],
    ['any_succeed', true],
    ['best_effort', true],
  ])('counts by %s', async (completion, isSuccess) => {
    const run = await runStates(
      app,
      `parallel-${completion.replace('_', '-')}`,
      `A: { kind: ParallelContainerRun, completion: ${completion}, steps: ${steps}, transitions: [{ condition: on_success, target: GOOD }, { condition: on_failure, target: BAD }] }
GOOD: { kind: System, command: update_blackboard, transitions: [] }
BAD: { kind: System, command: update_blackboard, env: { code: "{{A.output.bad.exit_code}} {{A.output.good.stdout}}" }, transitions: [] }`,
    )
    expect(run).toMatchObject({
      status: 'completed',
      current_state: isSuccess ? 'GOOD' : 'BAD',
      blackboard: { A: { overall_success: isSuccess, succeeded: 1, failed: 1 } },
    })
  })
})
