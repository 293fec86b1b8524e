import { execFileSync } from 'node:child_process'
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { systemRandom } from '../../kernel/random.ts'
import { openUserNamespace, SYSTEM_PATH } from '../user-namespace.ts'
import { assembleHostImage } from './host-image.ts'

const deps = { clock: systemClock, random: systemRandom }
let folder: string
let directory: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'castellan-host-'))
  directory = join(folder, 'host')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** Every file with its content, every link with its target. */
async function everything(path: string, name = ''): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const entry of await readdir(join(path, name), { withFileTypes: true })) {
    const child = join(name, entry.name)
    if (entry.isDirectory()) for (const [key, value] of await everything(path, child)) found.set(key, value)
    else if (entry.isSymbolicLink()) found.set(child, `-> ${await readlink(join(path, child))}`)
    else found.set(child, await readFile(join(path, child), 'latin1'))
  }
  return found
}

describe('made from a machine', () => {
  let machineRoot: string
  const put = async (name: string, content: string, mode = 0o644): Promise<void> => {
    const path = join(machineRoot, name)
    await mkdir(join(path, '..'), { recursive: true })
    await writeFile(path, content)
    await chmod(path, mode)
  }
  beforeEach(async () => {
    machineRoot = join(folder, 'machine')
    await put('usr/bin/bash', 'a program', 0o755)
    await symlink('usr/bin', join(machineRoot, 'bin'))
    await symlink('usr/lib', join(machineRoot, 'lib'))
    await put('etc/os-release', 'ID=sample\n')
    await put('etc/ld.so.cache', 'cache')
    await put('etc/alternatives/README', 'text')
    await symlink('/usr/bin/vim.tiny', join(machineRoot, 'etc/alternatives/vi'))
    await put('etc/ssl/certs/one.pem', '-----BEGIN CERTIFICATE-----')
  })

  it('has python where the machine has only python3, and is made anew when that changes', async () => {
    const link = async (): Promise<string | undefined> => {
      await assembleHostImage(directory, { ...deps, machineRoot })
      return (await everything(join(directory, 'rootfs'))).get('root/.local/bin/python')
    }
    expect(await link()).toBeUndefined()
    await put('usr/bin/python3', 'a program', 0o755)
    expect(await link()).toBe('-> /usr/bin/python3')
    await put('usr/bin/python', 'a program', 0o755)
    expect(await link()).toBeUndefined()
  })

  it('has nothing of its accounts, keys, homes and settings', async () => {
    const secret = 'CANARY'
    const secrets = [
      'etc/shadow',
      'etc/passwd',
      'etc/ssh/ssh_host_key',
      'etc/sudoers',
      'etc/environment',
      'etc/gitconfig',
      'etc/npmrc',
      'etc/pip.conf',
      'etc/hosts',
      'etc/resolv.conf',
      'etc/machine-id',
      'etc/profile',
      'etc/profile.d/proxy.sh',
      'etc/maven/settings.xml',
      'etc/ssl/private/key.pem',
      'home/ann/.ssh/id',
      'root/.netrc',
      'run/agent.sock',
    ]
    for (const name of secrets) await put(name, secret)
    await put('etc/ssl/certs/bundle.pem', `-----BEGIN PRIVATE KEY-----\n${secret}`)
    await put('etc/java-99/closed', secret, 0o640)
    await put('etc/java-99/security/policy', 'public')
    await assembleHostImage(directory, { ...deps, machineRoot })
    const found = await everything(join(directory, 'rootfs'))
    expect([...found].filter(([, content]) => content.includes(secret))).toEqual([])
    expect(Object.fromEntries(found)).toMatchObject({
      bin: '-> usr/bin',
      lib: '-> usr/lib',
      'etc/alternatives/vi': '-> /usr/bin/vim.tiny',
      'etc/ssl/certs/one.pem': '-----BEGIN CERTIFICATE-----',
      'etc/java-99/security/policy': 'public',
      'etc/passwd': expect.stringMatching(/^root:x:0:0:[^\n]*\nnobody:[^\n]*\n$/),
      'etc/resolv.conf': '',
      'etc/machine-id': '',
    })
    expect([...found.keys()].filter((name) => /shadow|sudoers|ssh|gitconfig/.test(name))).toEqual([])
    expect(found.has('usr/bin/bash')).toBe(false)
  })

  it('has the modes it must have, whatever the umask', async () => {
    const before = process.umask(0o077)
    try {
      await assembleHostImage(directory, { ...deps, machineRoot })
    } finally {
      process.umask(before)
    }
    const modeOf = async (name: string): Promise<string> =>
      ((await lstat(join(directory, 'rootfs', name))).mode & 0o7777).toString(8)
    expect(await modeOf('.')).toBe('755')
    expect(await modeOf('tmp')).toBe('1777')
    expect(await modeOf('var/tmp')).toBe('1777')
    expect(await modeOf('root')).toBe('700')
    expect(await modeOf('etc')).toBe('755')
    expect(await modeOf('etc/ssl')).toBe('755')
    expect(await modeOf('etc/passwd')).toBe('644')
    expect(await modeOf('etc/ssl/certs/one.pem')).toBe('644')
  })

  it('is kept until the machine changes, and leaves nothing beside it', async () => {
    const first = await assembleHostImage(directory, { ...deps, machineRoot })
    expect(first.binds).toEqual([{ source: '/usr', target: '/usr' }])
    const { ino } = await lstat(join(directory, 'rootfs'))
    expect(await assembleHostImage(directory, { ...deps, machineRoot })).toEqual(first)
    expect((await lstat(join(directory, 'rootfs'))).ino).toBe(ino)
    await mkdir(join(folder, '.assembling-dead'))
    await put('etc/os-release', 'ID=sample\nVERSION_ID=2\n')
    await assembleHostImage(directory, { ...deps, machineRoot })
    expect(await readFile(join(directory, 'rootfs/etc/os-release'), 'utf8')).toContain('VERSION_ID=2')
    expect((await readdir(folder)).sort()).toEqual(['host', 'machine'])
  })

  it('is made again when it is damaged', async () => {
    await assembleHostImage(directory, { ...deps, machineRoot })
    await writeFile(join(directory, 'image.json'), '{')
    const { image } = await assembleHostImage(directory, { ...deps, machineRoot })
    expect(image).toMatchObject({ name: 'host', source: 'host', packages: false })
  })

  it('mounts what is a directory of its own beside /usr', async () => {
    await mkdir(join(machineRoot, 'lib64'))
    const { binds } = await assembleHostImage(directory, { ...deps, machineRoot })
    expect(binds).toEqual([
      { source: '/usr', target: '/usr' },
      { source: '/lib64', target: '/lib64' },
    ])
    expect((await lstat(join(directory, 'rootfs/lib64'))).isDirectory()).toBe(true)
  })
})

describe('made from this machine', () => {
  it('runs the programs of this machine, with nothing but what it binds', async () => {
    const { binds } = await assembleHostImage(directory, deps)
    const mounts = binds.map(({ source, target }) => `mount --rbind ${source} rootfs${target}`)
    const script = ['set -e', ...mounts, 'mount --rbind /dev rootfs/dev', 'chroot rootfs /bin/sh -c "$1"'].join('\n')
    const commands =
      'id -un; awk "BEGIN { print 6 * 7 }"; perl -e "print qq(perl\\n)"; ls -d /home/* /etc/shadow 2>/dev/null || echo none'
    const namespace = await openUserNamespace()
    try {
      // The host user of the namespace's root must have access.
      await chmod(folder, 0o755)
      const [program, ...args] = [...namespace.enterArgv(), 'unshare', '--mount', 'sh', '-c', script, 'sh', commands]
      const output = execFileSync(program!, args, { cwd: directory, encoding: 'utf8', env: { PATH: SYSTEM_PATH } })
      expect(output).toBe('root\n42\nperl\nnone\n')
    } finally {
      await namespace.close()
    }
  })
})
