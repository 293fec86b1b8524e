import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, lstat, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { UID_BASE } from '../../src/supervisor/user-namespace.ts'
import { type CastellanClient, connectClient, launcher, type Outcome } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { type LayerFile, shellLayer, writeImageArchive } from '../support/oci-image.ts'
import { createOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { createDatabase } from '../support/postgres.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import type { Finished } from '../support/run-node.ts'

const isRoot = process.getuid!() === 0
type Who = 'root' | 'a user with subordinate ids' | 'a user without subordinate ids' | 'the user who runs the tests'
/** Root can be anybody; an ordinary user only itself, with the ids that the machine gives it. */
const everybody: readonly Who[] = isRoot
  ? ['root', 'a user with subordinate ids', 'a user without subordinate ids']
  : ['the user who runs the tests']

async function becomeUser(who: Who): Promise<OrdinaryUser> {
  const user = await createOrdinaryUser({ subordinateIds: who !== 'a user without subordinate ids' })
  if (who !== 'root') return user
  await chown(user.home, 0, 0)
  return { ...user, uid: 0, gid: 0, spawnOptions: {} }
}

const dataOf = (user: OrdinaryUser): string => join(user.home, 'data')

function start(user: OrdinaryUser, args: readonly string[], stdin: 'ignore' | 'pipe' = 'ignore'): ChildProcess {
  const all = [...args, '--data-dir', dataOf(user)]
  // Another user cannot use the compiled code of the user who runs the tests.
  const isOther = user.uid !== process.getuid!()
  const env = homeEnvironment(user.home, isOther ? { XDG_CACHE_HOME: join(user.home, 'cache') } : {})
  return spawn(launcher, all, {
    cwd: user.home,
    env,
    stdio: [stdin, 'pipe', 'pipe'],
    detached: true,
    ...user.spawnOptions,
  })
}

async function run(user: OrdinaryUser, ...args: string[]): Promise<Finished> {
  const child = start(user, args)
  const ended = once(child, 'close')
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)])
  const [code] = (await ended) as [number | null]
  return { code, stdout, stderr }
}

const imagesOf = (user: OrdinaryUser): string => join(dataOf(user), 'workspaces', 'images')
/** Listed before any workspace has used it. */
const unusedHost = { name: 'host', source: 'host', bytes: 0, packages: false, created_at: null }

/** A server of that user, and its client. */
const connect = (user: OrdinaryUser, ...args: string[]): Promise<CastellanClient> =>
  connectClient(start(user, ['mcp', '--tools', 'full', ...args], 'pipe'))

async function answerOf(outcome: Promise<Outcome>): Promise<Record<string, unknown>> {
  const came = await outcome
  expect(came).toMatchObject({ kind: 'done' })
  return (came as { answer: Record<string, unknown> }).answer
}

async function leave(client: CastellanClient): Promise<void> {
  client.endInput()
  await client.ended
}

/** As root of the namespace of that user, in the folder of its images. */
function inNamespace(user: OrdinaryUser, script: string): string {
  const program = join(import.meta.dirname, '../support/user-namespace-process.ts')
  const options = { cwd: imagesOf(user), encoding: 'utf8', ...user.spawnOptions } as const
  return (JSON.parse(execFileSync(process.execPath, [program, script], options)) as { output: string }).output
}

describe.each(everybody)('for %s', (who) => {
  let user: OrdinaryUser
  beforeAll(async () => {
    user = await becomeUser(who)
    const more: LayerFile[] = [
      { name: 'etc/owned', content: 'x', uid: 1000, gid: 1000 },
      { name: 'closed/file', content: 'x' },
      { name: 'closed', kind: 'directory', mode: 0o700, uid: 1000, gid: 1000 },
      { name: 'app', kind: 'directory', mode: 0o755 },
    ]
    const Env = ['OF_IMAGE=image', 'BOTH=image', 'GITHUB_TOKEN=hidden', 'AWS_SECRET_ACCESS_KEY=hidden']
    const config = { Env, WorkingDir: '/app' }
    await writeImageArchive(join(user.home, 'image.tar'), [shellLayer(), more], { config })
  })
  afterAll(async () => {
    await endSupervisor(dataOf(user))
    if (!isRoot) inNamespace(user, 'rm -rf ../../*')
    user.remove()
  })

  it('builds, lists and removes an image', async () => {
    const built = await run(user, 'image', 'build', 'small', 'image.tar', '--from', 'oci-archive', '--json')
    expect(built.code, built.stderr).toBe(0)
    const { notes, ...image } = JSON.parse(built.stdout) as { notes: string[]; packages: boolean }
    expect(image).toMatchObject({ name: 'small', source: 'oci-archive', created_at: expect.any(String) })
    if (who !== 'the user who runs the tests') {
      const hasIds = who !== 'a user without subordinate ids'
      expect(image.packages).toBe(hasIds)
      expect(notes).toEqual(hasIds ? [] : [expect.stringContaining('only one user id')])
    }
    const owner = await lstat(join(imagesOf(user), 'small/rootfs/bin/sh'))
    expect(owner.uid).toBe(isRoot && who === 'root' ? UID_BASE : user.uid)
    const owned = inNamespace(
      user,
      'stat -c %u:%g small/rootfs/etc/owned; chroot small/rootfs /bin/sh -c "echo it runs"',
    )
    expect(owned).toBe(`${image.packages ? '1000:1000' : '0:0'}\nit runs\n`)

    const listed = JSON.parse((await run(user, 'image', 'list', '--json')).stdout) as { images: unknown[] }
    expect(listed.images).toEqual([unusedHost, image])
    expect((await run(user, 'image', 'list')).stdout).toMatch(
      /^NAME .*\nhost .*\nsmall +oci-archive +\d+\.\d MB +(yes|no) /,
    )

    expect(await run(user, 'image', 'remove', 'small')).toEqual({ code: 0, stdout: 'Removed small.\n', stderr: '' })
    expect(await readdir(imagesOf(user))).toEqual([])
  })

  it('gives workspaces an image, which stays while one of them is there', async () => {
    expect(await run(user, 'image', 'build', 'used', 'image.tar', '--from', 'oci-archive')).toMatchObject({ code: 0 })
    const first = await connect(user)
    expect(await first.call('workspace_create', { base_image: 'absent' })).toMatchObject({
      kind: 'failed',
      code: 'ERR_NOT_FOUND',
      message: expect.stringMatching(/use one of host, used.*castellan image list/),
    })
    const made = await answerOf(first.call('workspace_create', { base_image: 'used', name: 'one' }))
    expect(await answerOf(first.call('exec', { workspace_id: 'one', command: 'echo $((6 * 7))' }))).toMatchObject({
      stdout: '42\n',
    })
    const saying = { workspace_id: 'one', command: 'echo "$PWD $OF_IMAGE $BOTH"', env: { BOTH: 'caller' } }
    expect(await answerOf(first.call('exec', saying))).toMatchObject({ stdout: '/app image caller\n' })
    await answerOf(first.call('set_env', { workspace_id: 'one', vars: { OF_IMAGE: 'kept' } }))
    const elsewhere = await answerOf(first.call('exec', { ...saying, workdir: '/etc' }))
    expect(elsewhere).toMatchObject({ stdout: '/etc kept caller\n' })
    const job = await answerOf(first.call('exec_background', { ...saying, action: 'start' }))
    const poll = { workspace_id: 'one', action: 'poll', job_id: job['job_id'] }
    await expect.poll(async () => (await answerOf(first.call('exec_background', poll)))['running']).toBe(false)
    expect(await answerOf(first.call('exec_background', poll))).toMatchObject({ stdout: '/app kept caller\n' })
    const refused = {
      code: 5,
      stderr: expect.stringMatching(
        new RegExp(`used by the workspace ${String(made['workspace_id'])}.*ERR_IMAGE_IN_USE`),
      ),
    }
    expect(await run(user, 'image', 'remove', 'used')).toMatchObject(refused)
    await answerOf(first.call('workspace_stop', { workspace_id: 'one' }))
    await leave(first)
    await endSupervisor(dataOf(user))
    expect(await run(user, 'image', 'remove', 'used')).toMatchObject(refused)
    const second = await connect(user)
    await answerOf(second.call('workspace_destroy', { workspace_id: 'one' }))
    await leave(second)
    expect(await run(user, 'image', 'remove', 'used')).toEqual({ code: 0, stdout: 'Removed used.\n', stderr: '' })
    expect(await readdir(imagesOf(user))).toEqual(['host'])
  })

  it('keeps what an image says from commands of agents where it names a credential', async () => {
    expect(await run(user, 'image', 'build', 'own', 'image.tar', '--from', 'oci-archive')).toMatchObject({ code: 0 })
    await writeFile(join(user.home, 'own.yaml'), 'workspaces: { default_image: own }')
    const client = await connect(user, '--config', join(user.home, 'own.yaml'))
    const { stdout } = await answerOf(
      client.call('cmd.run', { command: 'export; while read -r line; do echo "$line"; done < /proc/self/environ' }),
    )
    expect(stdout).toContain('OF_IMAGE')
    expect(stdout).not.toContain('hidden')
    await answerOf(client.call('workspace_destroy', { workspace_id: 'personal-owner' }))
    await leave(client)
    expect(await run(user, 'image', 'remove', 'own')).toMatchObject({ code: 0 })
  })

  it('copies a directory, and says what is wrong with one that it cannot read', async () => {
    const source = join(user.home, 'tree')
    execFileSync('mkdir', ['-p', join(source, 'bin')], user.spawnOptions)
    await writeFile(join(source, 'bin/tool'), 'x', { mode: 0o755 })
    await chown(join(source, 'bin/tool'), user.uid, user.gid)
    expect(await run(user, 'image', 'build', 'copy', 'tree', '--from', 'directory')).toMatchObject({ code: 0 })
    expect(inNamespace(user, 'stat -c %u:%a copy/rootfs/bin/tool')).toBe('0:755\n')
    expect(await run(user, 'image', 'remove', 'copy')).toMatchObject({ code: 0 })
    if (who === 'root' || !isRoot) return
    await writeFile(join(source, 'bin/secret'), 'x', { mode: 0o600 })
    const refused = await run(user, 'image', 'build', 'copy', 'tree', '--from', 'directory')
    expect(refused).toMatchObject({ code: 6, stderr: expect.stringContaining('Permission denied') })
    expect(await readdir(imagesOf(user))).toEqual(['host'])
  })
})

describe('a mirror that never answers', () => {
  let user: OrdinaryUser
  let sockets: Socket[]
  let connected: Promise<Socket>
  const server = createServer()
  beforeAll(async () => {
    user = await becomeUser(isRoot ? 'a user with subordinate ids' : 'the user who runs the tests')
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    sockets = []
    server.on('connection', (socket) => {
      socket.on('error', () => {})
      socket.resume()
      sockets.push(socket)
    })
  })
  afterAll(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
    user.remove()
  })

  async function startBuild(): Promise<{ child: ChildProcess; socket: Socket }> {
    connected = once(server, 'connection').then(([socket]) => socket as Socket)
    const { port } = server.address() as { port: number }
    const child = start(user, [
      'image',
      'build',
      'debian',
      '--from',
      'debootstrap',
      '--mirror',
      `http://127.0.0.1:${port}/debian`,
    ])
    return { child, socket: await connected }
  }

  it.each(isRoot ? ['SIGKILL', 'SIGINT'] : [])('leaves no process and no image behind after %s', async (signal) => {
    const { child, socket } = await startBuild()
    const closed = once(socket, 'close')
    const ended = once(child, 'exit')
    // To the whole group, as a terminal does it for Ctrl-C.
    process.kill(-child.pid!, signal)
    await closed
    const [code] = await ended
    expect(code).toBe(signal === 'SIGINT' ? 130 : null)
    expect(JSON.parse((await run(user, 'image', 'list', '--json')).stdout)).toEqual({ images: [unusedHost] })
    const left = await readdir(imagesOf(user))
    expect(left.filter((name) => !name.startsWith('.building-'))).toEqual([])
    if (signal === 'SIGINT') expect(left).toEqual([])
  })
})

describe('what is asked for', () => {
  let user: OrdinaryUser
  beforeAll(async () => {
    user = await createOrdinaryUser({ subordinateIds: false })
  })
  afterAll(() => user.remove())

  it.each([
    [['image'], 2, 'Say what to do: castellan image build, list or remove.'],
    [['image', 'burn'], 2, "Unknown action 'burn'"],
    [['image', 'build'], 2, 'NAME is missing'],
    [['image', 'build', 'x'], 2, '--from must be debootstrap, oci-archive or directory.'],
    [['image', 'build', 'x', '--from', 'oci-archive'], 2, 'SOURCE is missing'],
    [['image', 'build', 'x', 'y', '--from', 'debootstrap'], 2, 'debootstrap takes no SOURCE.'],
    [
      ['image', 'build', 'x', 'y', '--from', 'directory', '--suite', 'sid'],
      2,
      '--suite is only for --from debootstrap.',
    ],
    [['image', 'build', 'x', 'y', '--from', 'directory', '--max-gb', '0'], 2, '--max-gb must be'],
    [['image', 'build', 'x', 'none.tar', '--from', 'oci-archive'], 3, 'The archive cannot be opened.'],
    [['image', 'build', 'x', 'none', '--from', 'directory'], 3, 'SOURCE must be a directory'],
    [['image', 'build', 'host', 'none', '--from', 'directory'], 2, "The name 'host' is reserved"],
    [['image', 'list', '--mode', 'TEST'], 4, 'In mode TEST, workspaces are in a temporary directory'],
    [['image', 'remove', 'x'], 3, "There is no image 'x'."],
  ] as const)('%j ends with %i', async (args, code, message) => {
    const { stderr, ...rest } = await run(user, ...args)
    expect(rest).toEqual({ code, stdout: '' })
    expect(stderr).toContain(message)
  })

  it.each(isRoot ? ['debootstrap'] : [])('%s without user ids says what is missing', async () => {
    const { code, stderr } = await run(user, 'image', 'build', 'x', '--from', 'debootstrap')
    expect(code).toBe(6)
    expect(stderr).toMatch(/debootstrap needs user ids of its own.*\/etc\/subuid/)
  })
})

describe('with PostgreSQL', () => {
  let user: OrdinaryUser
  let directory: string
  beforeAll(async () => {
    user = await becomeUser(isRoot ? 'root' : 'the user who runs the tests')
    await writeImageArchive(join(user.home, 'image.tar'), [shellLayer()])
  })
  afterAll(async () => {
    await endSupervisor(directory)
    if (!isRoot) execFileSync('rm', ['-rf', dataOf(user)])
    user.remove()
  })

  it('images are where the workspaces of that database are', async () => {
    const database = ['--database-url', await createDatabase(inject('postgresUrl'))]
    const build = ['image', 'build', 'small', 'image.tar', '--from', 'oci-archive', ...database]
    expect(await run(user, ...build)).toMatchObject({ code: 0 })
    const [folder] = await readdir(dataOf(user))
    expect(folder).toMatch(/^postgres-/)
    directory = join(dataOf(user), folder!)
    expect(await readdir(join(directory, 'workspaces/images'))).toEqual(['small'])
    const client = await connect(user, ...database)
    await answerOf(client.call('workspace_create', { base_image: 'small', name: 'one' }))
    expect(await run(user, 'image', 'remove', 'small', ...database)).toMatchObject({ code: 5 })
    expect(await run(user, 'image', 'remove', 'small')).toMatchObject({ code: 3 })
    await answerOf(client.call('workspace_destroy', { workspace_id: 'one' }))
    expect(await run(user, 'image', 'remove', 'small', ...database)).toMatchObject({ code: 0 })
    await leave(client)
    const doctor = await run(user, 'doctor', ...database)
    expect([doctor.code, doctor.stdout]).toEqual([
      0,
      expect.stringMatching(/^state +ok +PostgreSQL at postgres:\/\/\S+: \d+ log entr(y|ies), sound$/m),
    ])
    expect(doctor.stdout).toMatch(/^owner +ok +none: every process works with PostgreSQL by itself$/m)
    const { password } = new URL(database[1]!)
    if (password !== '') expect(doctor.stdout).not.toContain(password)
    expect(await readdir(dataOf(user))).toEqual([folder])
  })
})

/** Minutes each, and it needs a mirror of Debian: only in the long run. */
describe.each(isLongRun ? everybody.filter((who) => who !== 'a user without subordinate ids') : [])(
  'debootstrap for %s',
  (who) => {
    it('makes a Debian in which packages can be installed', { timeout: 1_200_000 }, async () => {
      const user = await becomeUser(who)
      try {
        const built = await run(user, 'image', 'build', 'debian', '--from', 'debootstrap', '--json')
        expect(built.code, built.stderr).toBe(0)
        expect(JSON.parse(built.stdout)).toMatchObject({ source: 'debootstrap', packages: true, notes: [] })
        const release = await readFile(join(imagesOf(user), 'debian/rootfs/usr/lib/os-release'), 'utf8')
        expect(release).toContain('VERSION_CODENAME=bookworm')
        const script = [
          'set -e',
          'cp /etc/resolv.conf debian/rootfs/etc/resolv.conf',
          'touch debian/rootfs/dev/null && mount --bind /dev/null debian/rootfs/dev/null',
          'chroot debian/rootfs apt-get install -qq --yes --no-install-recommends hello >/dev/null 2>&1',
          'chroot debian/rootfs hello',
        ].join('; ')
        expect(inNamespace(user, `unshare --mount sh -c '${script}'`)).toBe('Hello, world!\n')
        expect(await run(user, 'image', 'remove', 'debian')).toMatchObject({ code: 0 })
        expect(await readdir(imagesOf(user))).toEqual([])
      } finally {
        user.remove()
      }
    })
  },
)
