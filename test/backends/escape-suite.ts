import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  type CapabilityName,
  closedNetwork,
  type ExecResult,
  type WorkspaceSpec,
} from '../../src/domains/workspaces/backend.ts'
import type { OpenedBackend } from '../support/namespaces-backend.ts'

const SECRET = `canary-${randomUUID()}`
const MB = 1024 * 1024

/**
 * Really tries to get out, or to take the host down. Each case is contained, or, where the kernel gives an ordinary user
 * no way to contain it, declared as not enforced. The other workspace answers throughout.
 */
export function describeEscapes(
  title: string,
  open: () => Promise<OpenedBackend>,
  image = 'host',
  openTimeoutMs = 60_000,
): void {
  describe(title, () => {
    let opened: OpenedBackend
    let id: string
    let other: string
    const folder = mkdtempSync(join(tmpdir(), 'castellan-canary-'))
    const canary = join(folder, 'canary')
    beforeAll(async () => {
      writeFileSync(canary, SECRET, { mode: 0o644 })
      opened = await open()
      id = await start()
      other = await start()
      await opened.backend.files(other).write('/workspace/secret', Buffer.from(SECRET))
    }, openTimeoutMs)
    afterAll(async () => {
      await opened?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    async function start(resources: Partial<WorkspaceSpec['resources']> = {}): Promise<string> {
      const spec = {
        id: randomUUID(),
        hostname: 'cell',
        image,
        layers: [],
        resources: { vcpus: 1, memoryMb: 256, diskGb: 0.25, ...resources },
        network: closedNetwork,
      }
      const { ip } = await opened.backend.create(spec)
      await opened.backend.start({ ...spec, ip })
      return spec.id
    }
    const shell = (command: string, where = id, timeoutMs = 20_000): Promise<ExecResult> =>
      opened.backend.exec(where, {
        argv: ['/bin/sh', '-c', command],
        env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' },
        timeoutMs,
        outputBytesMax: 256 * 1024,
        signal: new AbortController().signal,
      })
    const textOf = (result: ExecResult): string =>
      Buffer.concat([result.stdout.head, result.stdout.tail, result.stderr.head, result.stderr.tail]).toString()
    const attempt = async (command: string, timeoutMs?: number): Promise<string> =>
      textOf(await shell(command, id, timeoutMs))
    const enforced = async (name: CapabilityName): Promise<boolean> =>
      (await opened.backend.capabilities()).capabilities[name].enforced
    const othersAnswer = async (): Promise<void> => {
      expect(textOf(await shell('cat /workspace/secret', other))).toBe(SECRET)
    }

    it('sees no file of the host: homes, secrets, sockets, the state, the program', async () => {
      const locations = [
        // A whole system has one of its own.
        ...(image === 'debian' ? [] : ['/etc/shadow']),
        '/root/.ssh',
        '/var/run/docker.sock',
        '/mnt/state',
        '/mnt/program',
        opened.state,
        canary,
      ]
      const seen = await attempt(
        `for p in ${locations.join(' ')}; do [ -e "$p" ] && echo "there: $p"; done; echo checked`,
      )
      expect(seen.trim()).toBe('checked')
      expect(
        await attempt(`grep -rls '${SECRET}' / --exclude-dir=proc --exclude-dir=usr --exclude-dir=dev; echo end`),
      ).toBe('end\n')
    })

    it('leads no path out: dots, links, the roots of other processes', async () => {
      expect(
        await attempt(`cd /; cat ../../../../../..${canary}; ln -s ${canary} /l; cat /l; cat /proc/1/root${canary}`),
      ).not.toContain(SECRET)
      await expect(opened.backend.files(id).read('/l')).rejects.toThrow()
      for (const path of [`/../..${canary}`, `/proc/1/root${canary}`, '/proc/self/environ']) {
        await expect(opened.backend.files(id).read(path)).rejects.toThrow()
      }
      await expect(opened.backend.files(id).read('/a\0b')).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
      await expect(opened.backend.files(id).write(`/${'n'.repeat(300)}`, Buffer.from('x'))).rejects.toMatchObject({
        code: 'ERR_INVALID_INPUT',
      })
    })

    it('sees no process but its own, and can signal none', async () => {
      const pids = (await attempt('ls /proc | grep "^[0-9]*$"')).trim().split('\n').map(Number)
      expect(Math.max(...pids)).toBeLessThan(5_000)
      expect(pids.length).toBeLessThan(20)
      await attempt('kill -9 -1')
      await othersAnswer()
      process.kill(opened.supervisorPid(), 0)
    })

    it('cannot stop or trace what holds it, and no dead process is left while it tries', async () => {
      // 16 is PTRACE_ATTACH, 0x4206 PTRACE_SEIZE and 0x4207 PTRACE_INTERRUPT.
      const tries = `kill "STOP", 1; for my $r (16, 0x4206, 0x4207) { print "did\\n" if syscall(101, $r, 1, 0, 0) == 0 }`
      const leave = 'for (1 .. 300) { next if fork; fork; exit } 1 while wait > 0;'
      const isDead = 'open(my $f, "<", "/proc/$_/stat") && <$f> =~ /\\) Z /'
      const count = `my $left; do { opendir my $d, "/proc"; $left = grep { /^\\d/ && ${isDead} } readdir $d } while $left; print "none left"`
      expect(await attempt(`perl -e '${tries} ${leave} ${count}'`)).toBe('none left')
      const looks =
        'for f in environ mem maps root/etc/hostname fd/0; do cat /proc/1/$f && echo "read $f"; done; echo end'
      expect(await attempt(`(${looks}) 2>/dev/null`)).toBe('end\n')
    })

    it('is not told how the machine was started, nor where the program is', async () => {
      const program = join(import.meta.dirname, '../..')
      const seen = await attempt(
        'cat /proc/cmdline /proc/bootconfig /proc/self/mountinfo /proc/1/cmdline /proc/self/cgroup 2>/dev/null; env; echo end',
      )
      expect(seen).toContain('end')
      for (const hidden of [readFileSync('/proc/cmdline', 'utf8').trim(), program, opened.state]) {
        expect(hidden.length).toBeGreaterThan(0)
        expect(seen).not.toContain(hidden)
      }
    })

    it('reaches no network of the host, no metadata address, no other workspace', async () => {
      const server = createServer((socket) => socket.on('error', () => {}).end(SECRET)).listen(0, '0.0.0.0')
      await vi.waitUntil(() => server.listening, { timeout: 180_000 })
      const { port } = server.address() as { port: number }
      const own = Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address))
      const targets = [...own.filter((address) => !address.includes(':')), '169.254.169.254', '10.99.0.1', '10.0.2.2']
      const tries = targets.map(
        (address) => `timeout 2 bash -c 'cat < /dev/tcp/${address}/${port}' && echo open ${address}`,
      )
      const result = await attempt(`${tries.join('; ')}; echo end`, 60_000)
      server.close()
      expect(result).not.toContain(SECRET)
      expect(result).not.toMatch(/^open /m)
    })

    it('writes nothing to the kernel, and has no /sys', async () => {
      const tries = [
        '/proc/sys/kernel/hostname',
        '/proc/sys/vm/drop_caches',
        '/proc/sysrq-trigger',
        '/proc/sys/kernel/core_pattern',
        '/sys/kernel/uevent_helper',
        '/proc/1/oom_score_adj',
      ]
      const result = await attempt(
        `for f in ${tries.slice(0, 5).join(' ')}; do echo 1 > $f && echo "wrote $f"; done 2>/dev/null; echo end`,
      )
      expect(result).toBe('end\n')
    })

    it('mounts nothing, changes no root, enters no namespace', async () => {
      const result = await attempt(
        `mount -t tmpfs none /mnt && echo did; mount --bind /usr /mnt && echo did; umount /usr && echo did; chroot / true && echo did;
         unshare -m true && echo did; unshare -U true && echo did; unshare -r true && echo did; nsenter -t 1 -m true && echo did;
         bwrap --bind / / true && echo did; echo end`,
      )
      expect(result).not.toContain('did')
      expect(result).toContain('end')
    })

    it('makes no device node, loads no key, no module, no program into the kernel', async () => {
      const calls = await attempt(
        `mknod /d b 8 0 && echo did-node;
         perl -e 'for (250, 248, 321, 298, 175, 313, 246, 304, 323, 425) { $! = 0; my $r = syscall($_, 0, 0, 0, 0, 0); print "did $_\\n" if $r >= 0 }'; echo end`,
      )
      expect(calls).not.toContain('did')
      expect(await attempt('ls /dev')).not.toMatch(/^(sd|vd|nvme|kvm|mem|kmsg|loop|fuse)/m)
    })

    it('traces no process of the host', async () => {
      const pid = opened.supervisorPid()
      const result = await attempt(`perl -e '$r = syscall(101, 16, ${pid}, 0, 0); print $r == 0 ? "did" : "refused"'`)
      expect(result).toBe('refused')
    })

    it('holds a fork bomb', async () => {
      const bombed = await start({ processes: 64 })
      const exploding = shell('f() { f | f & }; f; sleep 1', bombed, 2_000)
      await othersAnswer()
      await exploding
      expect(await enforced('process_limit')).toBe(true)
      await othersAnswer()
      await opened.backend.destroy(bombed)
    })

    it('holds a memory bomb, or says that it cannot', async () => {
      if (!(await enforced('memory_limit'))) {
        expect((await opened.backend.capabilities()).capabilities.memory_limit.reason).not.toBe('')
        return
      }
      const result = await shell(`perl -e '$x = "a" x (${1024 * MB}); print "had it all"'`)
      expect(textOf(result)).not.toContain('had it all')
      await othersAnswer()
    })

    it('holds a disk fill and an inode fill, or says that it cannot', async () => {
      if (!(await enforced('disk_limit'))) {
        const { reason } = (await opened.backend.capabilities()).capabilities.disk_limit
        expect(reason).toContain(statSync(opened.state).uid === 0 ? 'btrfs-progs' : 'as root')
        return
      }
      const filled = await start({ diskGb: 0.012 })
      expect(textOf(await shell('head -c 400m /dev/zero > /fill; sync; echo $?', filled))).toMatch(/No space|quota/i)
      await shell('rm /fill; sync', filled)
      // Empty files, with names so long that not too many fill the disk: the last ones before its end take long.
      const inodes = await shell(
        `perl -e '$n = "n" x 240; for ($i = 0; $i < 400000; $i++) { open(my $f, ">", "/$n$i") or do { print "stopped"; exit } } print "all"'`,
        filled,
        60_000,
      )
      expect(textOf(inodes)).toContain('stopped')
      await othersAnswer()
      await opened.backend.destroy(filled)
    })

    it('holds descriptors, shared memory and long names', async () => {
      const files = await attempt(`perl -e 'while (open(my $f, "<", "/dev/null")) { push @f, $f } print scalar @f'`)
      expect(Number(files)).toBeLessThanOrEqual(65_536)
      const shared = await attempt(
        'head -c 200m /dev/zero > /dev/shm/x; rm -f /dev/shm/x; echo x > /dev/new && echo did',
      )
      expect(shared).toMatch(/No space/)
      expect(shared).not.toContain('did')
      expect(await attempt(`mkdir /$(head -c 300 /dev/zero | tr '\\0' a) 2>&1 | tail -c 30`)).toContain('too long')
      await othersAnswer()
    })

    it('gives terminal escapes back as bytes and nothing else', async () => {
      const result = await shell(`printf '\\033]0;title\\007\\033[2J\\000end'`)
      expect(Buffer.from(result.stdout.head).toString('latin1')).toBe('\u001b]0;title\u0007\u001b[2J\u0000end')
    })

    it('cannot end the supervisor, nor what holds the workspace', async () => {
      const doomed = await start()
      await shell('kill -9 1 2; kill -STOP 1; pkill -9 sleep; kill -9 -1', doomed, 5_000)
      expect(textOf(await shell('echo still here', doomed))).toBe('still here\n')
      await othersAnswer()
      process.kill(opened.supervisorPid(), 0)
      await opened.backend.destroy(doomed)
      expect((await opened.backend.inventory()).stored).not.toContain(doomed)
    })

    it('cannot stop the first process of the workspace, which waits for all that are orphaned', async () => {
      const stopped = await start()
      const trace = `perl -e 'print syscall(101, 16, 1, 0, 0) == 0 ? "did" : "refused"'`
      const zombies = '$(cat /proc/[0-9]*/status 2>/dev/null | grep -c "^State:.Z")'
      const orphans = `i=0; while [ $i -lt 50 ]; do (sleep 0 &); i=$((i + 1)); done`
      const wait = `i=0; while [ ${zombies} != 0 ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done; echo ${zombies}`
      const result = await shell(`${trace}; kill -STOP 1; ${orphans}; ${wait}`, stopped, 30_000)
      expect(textOf(result)).toBe('refused0\n')
      await opened.backend.destroy(stopped)
    })

    it('leaves the canary as it was', () => {
      expect(existsSync(canary) && readFileSync(canary, 'utf8')).toBe(SECRET)
    })
  })
}
