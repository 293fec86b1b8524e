import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { socketPathOf } from '../../src/backends/namespaces/start-supervisor.ts'
import { createAsk } from '../../src/backends/namespaces/supervisor-client.ts'
import { closedNetwork, type ExecResult, type WorkspaceSpec } from '../../src/domains/workspaces/backend.ts'
import type { OpenedBackend } from '../support/namespaces-backend.ts'
import { busyboxLayer, directory, shellLayer } from '../support/oci-image.ts'
import { makeRepository, packageLayers } from '../support/package-image.ts'

/** CHOWN, DAC_OVERRIDE, FOWNER, SETGID and SETUID, as the kernel prints them. */
export const PACKAGE_CAPABILITIES = '00000000000000cb'

/** An image in which several users have files. */
const peopled = [
  busyboxLayer(),
  [
    { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\nworker:x:1000:1000::/srv:/bin/sh\n' },
    { name: 'etc/group', content: 'root:x:0:\nworker:x:1000:\n' },
    directory('srv/private', { mode: 0o700, uid: 33, gid: 34 }),
    { name: 'srv/private/note', content: 'first\n', mode: 0o600, uid: 33, gid: 34 },
    { name: 'srv/private/other', content: 'x', mode: 0o640, uid: 33, gid: 34 },
    { name: 'usr/local/bin/lent', content: '#!/bin/sh\n', mode: 0o4755, uid: 1000, gid: 1000 },
  ],
]

/** Makes workspaces and runs commands in them. */
function createBench(opened: () => OpenedBackend, usualImage: string) {
  async function start(more: Partial<WorkspaceSpec> = {}): Promise<WorkspaceSpec> {
    const spec: Omit<WorkspaceSpec, 'ip'> = {
      id: randomUUID(),
      hostname: 'cell',
      image: usualImage,
      layers: [],
      resources: { vcpus: 1, memoryMb: 512, diskGb: 1 },
      network: closedNetwork,
      ...more,
    }
    const { ip } = await opened().backend.create(spec)
    await opened().backend.start({ ...spec, ip })
    return { ...spec, ip }
  }
  const shell = (id: string, command: string, timeoutMs = 30_000): Promise<ExecResult> =>
    opened().backend.exec(id, {
      argv: ['/bin/sh', '-c', command],
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive' },
      timeoutMs,
      outputBytesMax: 65_536,
      signal: new AbortController().signal,
    })
  const say = async (id: string, command: string): Promise<string> => {
    const { stdout, stderr } = await shell(id, command)
    return Buffer.concat([stdout.head, stderr.head]).toString().trim()
  }
  return { start, shell, say }
}

/** Workspaces on images of their own, in which there are several users. */
export function describeImages(title: string, open: () => Promise<OpenedBackend>): void {
  describe(title, () => {
    let opened: OpenedBackend
    beforeAll(async () => {
      opened = await open()
      await opened.buildLayers('peopled', peopled)
    })
    afterAll(async () => await opened?.close())

    const { start, shell, say } = createBench(() => opened, 'peopled')
    const ask: ReturnType<typeof createAsk> = (...args) => createAsk(socketPathOf(opened.state))(...args)
    const imageNames = async (): Promise<string[]> => (await opened.backend.images()).map(({ name }) => name)

    describe('users', () => {
      let id: string
      beforeAll(async () => {
        id = (await start()).id
      })
      afterAll(async () => await opened.backend.destroy(id))

      it('lose their capabilities with root, and see nothing of others', async () => {
        const status = 'id -u; grep ^Cap /proc/self/status'
        const asWorker = await say(id, `su worker -c '${status}; cat /srv/private/note; kill -0 1'`)
        expect(asWorker).toMatch(/^1000\n/)
        for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) {
          expect(asWorker).toMatch(new RegExp(`^${name}:\\s0+$`, 'm'))
        }
        expect(asWorker).not.toContain('first')
        expect(asWorker.match(/Permission denied|not permitted/g)).toHaveLength(2)
      })

      it('get no rights from files that lend them', async () => {
        await shell(id, 'mkdir /lent; cp /usr/bin/busybox /lent; chown 0:0 /lent/busybox; chmod 6755 /lent/busybox')
        expect(
          await say(
            id,
            `stat -c %a /lent/busybox; su worker -c '/lent/busybox id -u; /lent/busybox grep ^CapEff /proc/self/status'`,
          ),
        ).toBe('6755\n1000\nCapEff:\t0000000000000000')
      })

      it('own files that root of the workspace reads, writes and removes, and that stay theirs', async () => {
        const files = opened.backend.files(id)
        const note = '/srv/private/note'
        expect(await text((await files.read(note)).stream)).toBe('first\n')
        expect((await files.list('/srv/private', 10)).entries.map(({ name }) => name).sort()).toEqual(['note', 'other'])
        await files.write(note, Buffer.from('second\n'))
        await files.write('/srv/private/new', Buffer.from('mine'))
        await files.rename('/srv/private/other', '/srv/private/renamed')
        expect(await say(id, 'cd /srv/private; stat -c "%n %u:%g %a" note new renamed; cat note')).toBe(
          'note 33:34 600\nnew 0:0 644\nrenamed 33:34 640\nsecond',
        )
        await files.remove('/srv/private', { recursive: true })
        expect(await say(id, 'ls /srv')).toBe('')
      })

      it('have processes that end with the command and with the workspace', async () => {
        const count = (): Promise<string> => say(id, 'ps -o args | grep -c "^sleep 500[01]"')
        expect(await shell(id, "su worker -c 'sleep 5000 & sleep 5001'", 500)).toMatchObject({ ended: 'timeout' })
        await expect.poll(count).toBe('0')
        const other = await start()
        await shell(other.id, "su worker -c 'sleep 5000' >/dev/null 2>&1 &")
        await opened.backend.stop(other.id, 5_000)
        expect((await opened.backend.inventory()).running).not.toContain(other.id)
        await opened.backend.destroy(other.id)
      })
    })

    it('keeps owners and modes over a stop, a snapshot, a fork and a reset', async () => {
      const spec = await start()
      const { id } = spec
      await shell(
        id,
        `chown 5:6 /srv/private/note; rm /srv/private/other; mkdir /srv/own; chown 7:8 /srv/own; chmod 1770 /srv/own;
         touch /srv/own/lent; chown 1000:0 /srv/own/lent; chmod 4750 /srv/own/lent; touch /srv/own/set; chmod 2755 /srv/own/set`,
      )
      const look = 'cd /srv; stat -c "%n %u:%g %a" private private/* own own/*; stat -c "%u:%g %a" /usr/local/bin/lent'
      const expected = [
        ['private 33:34 700', 'private/note 5:6 600', 'own 7:8 1770'],
        ['own/lent 1000:0 4750', 'own/set 0:0 2755', '1000:1000 4755'],
      ]
        .flat()
        .join('\n')
      expect(await say(id, look)).toBe(expected)
      await opened.backend.stop(id, 100)
      await opened.backend.start(spec)
      expect(await say(id, look)).toBe(expected)
      const layer = randomUUID()
      await opened.backend.snapshot(id, layer)
      const fork = await start({ layers: [layer] })
      expect(await say(fork.id, look)).toBe(expected)
      expect(await say(fork.id, "su worker -c 'echo mine > /tmp/a && stat -c %u /tmp/a'")).toBe('1000')
      await shell(id, 'rm -r /srv/own')
      await opened.backend.stop(id, 100)
      await opened.backend.reset({ ...spec, layers: [layer] })
      await opened.backend.start({ ...spec, layers: [layer] })
      expect(await say(id, look)).toBe(expected)
      for (const each of [id, fork.id]) await opened.backend.destroy(each)
      await opened.backend.removeLayer(layer)
    })

    it('installs and removes packages, with owners, lent rights and the account that apt downloads as', async () => {
      await opened.buildLayers('packages', packageLayers())
      const { id } = await start({ image: 'packages' })
      expect(await shell(id, makeRepository)).toMatchObject({ exitCode: 0 })
      const installed = await shell(id, 'apt-get -q update && apt-get -qq --yes install sample')
      expect(Buffer.from(installed.stderr.head).toString()).not.toMatch(/^[EW]:/m)
      expect(installed.exitCode).toBe(0)
      const look =
        'sample; stat -c "%n %u:%g %a" /usr/bin/sample /var/lib/sample; stat -c %U /var/lib/apt/lists/partial'
      expect(await say(id, look)).toBe('it runs\n/usr/bin/sample 120:121 4755\n/var/lib/sample 120:121 1770\n_apt')
      const removed = 'apt-get -qq --yes remove sample >/dev/null; echo $?; ls /usr/bin/sample /var/lib/sample'
      expect(await say(id, removed)).toMatch(/^0\n(.*No such file or directory\n?){2}$/)
      await opened.backend.destroy(id)
    })

    it('takes no more of an image than a shell', async () => {
      await opened.buildLayers('shell', [shellLayer()])
      const { id } = await start({ image: 'shell' })
      const pidOf = async (): Promise<number> => Number(await say(id, 'echo $$'))
      const first = await pidOf()
      // What holds the workspace would otherwise start one process after the other.
      expect((await pidOf()) - first).toBeLessThan(20)
      await opened.backend.destroy(id)
    })

    it('says what is wrong with an image that has no shell, and with one that is not there', async () => {
      await opened.buildLayers('empty', [[{ name: 'etc/x', content: 'x' }]])
      await expect(start({ image: 'empty' })).rejects.toMatchObject({
        code: 'ERR_BACKEND_FAILED',
        message: expect.stringContaining('An image needs /bin/sh.'),
      })
      await expect(start({ image: 'absent' })).rejects.toMatchObject({
        code: 'ERR_NOT_FOUND',
        message: expect.stringContaining('castellan image list'),
      })
      const { stored } = await opened.backend.inventory()
      const logs = await Promise.all(stored.map((id) => opened.backend.logs(id, 10)))
      expect(logs.map(({ stderr }) => stderr)).toContainEqual(expect.stringMatching(/^\S+ error: .*needs \/bin\/sh\.$/))
      for (const id of stored) await opened.backend.destroy(id)
    })

    describe('an image', () => {
      beforeAll(() => opened.buildLayers('kept', [shellLayer()]))

      it('stays while a workspace lies on it, running or not, though the supervisor was restarted', async () => {
        const refused = { code: 'ERR_IMAGE_IN_USE', details: { count: 1 } }
        const spec = await start({ image: 'kept' })
        await expect(ask('removeImage', { name: 'kept' })).rejects.toMatchObject(refused)
        await opened.backend.stop(spec.id, 0)
        await opened.restart()
        await expect(ask('removeImage', { name: 'kept' })).rejects.toMatchObject({
          ...refused,
          message: expect.stringContaining(spec.id),
        })
        expect(await imageNames()).toContain('kept')
        await opened.backend.start(spec)
        expect(await say(spec.id, 'echo still')).toBe('still')
        await opened.backend.destroy(spec.id)
        await ask('removeImage', { name: 'kept' })
        expect(await imageNames()).not.toContain('kept')
        expect(readdirSync(join(opened.state, 'images')).filter((name) => name.startsWith('.'))).toEqual([])
        await expect(ask('removeImage', { name: 'kept' })).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
        await expect(ask('removeImage', { name: 'host' })).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
        await expect(ask('removeImage', { name: '../..' })).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
      })

      it('is either used or removed, never both', async () => {
        for (let round = 0; round < 4; round++) {
          const image = `contended-${round}`
          await opened.buildLayers(image, [shellLayer()])
          const id = randomUUID()
          const [used, removed] = await Promise.allSettled([start({ id, image }), ask('removeImage', { name: image })])
          expect([used.status, removed.status].sort()).toEqual(['fulfilled', 'rejected'])
          if (used.status === 'fulfilled') expect(await say(id, 'echo there')).toBe('there')
          else expect(used.reason).toMatchObject({ code: 'ERR_NOT_FOUND' })
          await opened.backend.destroy(id)
        }
      })
    })
  })
}

const APT_TIMEOUT_MS = 300_000

/** A whole system, with the packages of its archive. */
export function describeDebian(title: string, open: () => Promise<OpenedBackend>, openTimeoutMs: number): void {
  describe(title, () => {
    let opened: OpenedBackend
    beforeAll(async () => {
      opened = await open()
    }, openTimeoutMs)
    afterAll(async () => await opened?.close())
    const { start, shell, say } = createBench(() => opened, 'debian')

    it('installs packages from the internet, and its copies have them', { timeout: 2 * APT_TIMEOUT_MS }, async () => {
      const { internet } = (await opened.backend.capabilities()).capabilities
      if (!internet.enforced) {
        expect(internet.reason).not.toBe('')
        return
      }
      const { id } = await start({ network: { ...closedNetwork, allowInternet: true } })
      const install = 'apt-get -q update && apt-get -qq --yes --no-install-recommends install hello cron openssh-client'
      const installed = await shell(id, install, APT_TIMEOUT_MS)
      expect(Buffer.from(installed.stderr.head).toString()).not.toMatch(/^[EW]:/m)
      expect(installed.exitCode).toBe(0)
      const look =
        'hello; dpkg --audit; stat -c "%U:%G %a" /var/spool/cron/crontabs /usr/bin/crontab /usr/bin/ssh-agent'
      // The right to act for a group that root is not in cannot be lent: that takes a capability that nobody has here.
      const expected = 'Hello, world!\nroot:crontab 1730\nroot:crontab 755\nroot:_ssh 755'
      expect(await say(id, look)).toBe(expected)
      await shell(id, 'useradd --create-home worker')
      const layer = randomUUID()
      await opened.backend.snapshot(id, layer)
      const fork = await start({ layers: [layer] })
      expect(await say(fork.id, look)).toBe(expected)
      expect(await say(fork.id, "su worker -c 'cd; echo mine >a; stat -c %U:%G a'")).toBe('worker:worker')
    })

    it('installs a package from a file', async () => {
      const { id } = await start()
      expect(await shell(id, makeRepository)).toMatchObject({ exitCode: 0 })
      const installed = await shell(id, 'apt-get -qq --yes install /repo/sample.deb')
      expect(Buffer.from(installed.stderr.head).toString()).not.toMatch(/^E:/m)
      const look = 'sample; stat -c "%n %u:%g %a" /usr/bin/sample /var/lib/sample'
      expect(await say(id, look)).toBe('it runs\n/usr/bin/sample 120:121 4755\n/var/lib/sample 120:121 1770')
    })
  })
}
