import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { closedNetwork, type ExecResult } from '../../src/domains/workspaces/backend.ts'
import { type OpenedBackend, openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'

/** Whose files and processes there can be in the image `host`. */
const openers: readonly Readonly<{ title: string; open(): Promise<OpenedBackend>; hasIds: boolean }>[] = [
  { title: 'with the privileges that the tests have', open: () => openNamespacesBackend(), hasIds: true },
  { title: 'with subordinate ids', open: () => openUserBackend({ subordinateIds: true }), hasIds: true },
  { title: 'with one id', open: () => openUserBackend({ subordinateIds: false }), hasIds: false },
]

describe.each(openers)('owners, $title', ({ open, hasIds }) => {
  const id = randomUUID()
  let opened: OpenedBackend
  beforeAll(async () => {
    opened = await open()
    const resources = { vcpus: 1, memoryMb: 256, diskGb: 1 }
    const spec = { id, hostname: 'owned', image: 'host', layers: [], resources, network: closedNetwork }
    const { ip } = await opened.backend.create(spec)
    await opened.backend.start({ ...spec, ip })
  })
  afterAll(async () => await opened?.close())

  const shell = (command: string): Promise<ExecResult> =>
    opened.backend.exec(id, {
      argv: ['/bin/sh', '-c', command],
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      timeoutMs: 60_000,
      outputBytesMax: 4096,
      signal: new AbortController().signal,
    })
  const out = ({ stdout }: ExecResult): string => Buffer.from(stdout.head).toString()

  it('unpacks an archive of anybody, and installs for anybody', async () => {
    const pack = 'mkdir /tmp/a && echo x > /tmp/a/f && tar --owner=1234 --group=1234 -cf /tmp/a.tar -C /tmp a'
    const unpacked = await shell(`${pack} && rm -r /tmp/a && tar -xf /tmp/a.tar -C /tmp && stat -c %u /tmp/a/f`)
    expect(unpacked).toMatchObject({ exitCode: 0 })
    expect(out(unpacked)).toBe(hasIds ? '1234\n' : '0\n')
    const installed = await shell('install -o 33 -g 33 /tmp/a/f /tmp/b && stat -c %u /tmp/b')
    expect(installed).toMatchObject({ exitCode: 0 })
    expect(out(installed)).toBe(hasIds ? '33\n' : '0\n')
  })

  it('lets root become others where there are others, and others not become root', async () => {
    const became = await shell('su nobody -s /bin/sh -c "id -u; touch /tmp/own; rm -f /etc/hostname"')
    if (!hasIds) {
      expect(became.exitCode).not.toBe(0)
      const { enforced, reason } = (await opened.backend.capabilities()).capabilities.package_install
      expect({ enforced, reason }).toEqual({ enforced: false, reason: expect.stringContaining('one user id') })
      return
    }
    expect(out(became)).toBe('65534\n')
    expect(out(await shell('stat -c %u /tmp/own; cat /etc/hostname'))).toBe('65534\nowned\n')
    expect(out(await shell('su nobody -s /bin/sh -c "su root -c id < /dev/null; echo $?" 2>/dev/null'))).not.toContain(
      'uid=0',
    )
  })
})
