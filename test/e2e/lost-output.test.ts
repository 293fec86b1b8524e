import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { openCliHome } from '../support/cli-home.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** Output that cannot be written: a command must not look as if it had answered. */
const { home, dataDir, onState } = openCliHome()

/** `%` stands for the command. */
async function runIn(line: string, args: readonly string[]) {
  const child = spawn('sh', ['-c', line.replace('%', '"$0" "$@"'), launcher, ...args, '--data-dir', dataDir], {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: home,
    env: homeEnvironment(home),
  })
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return { code: code as number | null, stderr }
}

describe('a disk that is full', () => {
  test.each([
    ['call', 'task_list'],
    ['users', 'list'],
    ['keys', 'list', '--json'],
    ['export', '-'],
  ])('%s %s fails and says so', async (...args) => {
    await onState(['call', 'server_ping'])
    const { code, stderr } = await runIn('% >/dev/full', args)
    expect([code, stderr]).toEqual([5, expect.stringMatching(/^error: .*(ENOSPC|disk is full).* \(ERR_DISK_FULL\)\n$/)])
  })

  test('a key whose secret is lost is named, with the command that revokes it', async () => {
    const { code, stderr } = await runIn('% >/dev/full', ['keys', 'create', 'lost'])
    const revoke = /The key was made, .*: castellan keys revoke (\S+) \(ERR_DISK_FULL\)\n$/.exec(stderr)
    expect([code, revoke]).toEqual([5, expect.anything()])
    expect((await onState(['keys', 'revoke', revoke![1]!])).stdout).toMatch(/^Revoked lost /)
  })
})

test.each([
  ['keys', 'list'],
  ['export', '-'],
])('a reader of %s %s that leaves early is no failure', async (...args) => {
  await onState(['call', 'server_ping'])
  // The status of a pipeline is that of its last command.
  const { stderr } = await runIn('(%; echo "status $?" >&2) | true', args)
  expect(stderr).toBe('status 0\n')
})

test('a server whose log nobody reads ends in order', async () => {
  const child = spawn(launcher, ['serve', '--port', '0', '--json', '--log-level', 'info', '--data-dir', dataDir], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: home,
    env: homeEnvironment(home),
  })
  child.stderr.destroy()
  await once(child.stdout, 'data')
  expect(existsSync(join(dataDir, 'owner.json'))).toBe(true)
  // It says that it ends.
  child.kill('SIGTERM')
  expect((await once(child, 'close'))[0]).toBe(0)
  expect(existsSync(join(dataDir, 'owner.json'))).toBe(false)
})
