import { type EnteredCommand, startPerlProcess } from './perl-process.ts'

/** A command inside a workspace's namespaces, as the launcher takes it. Paths are those of the supervisor. */
export type EnterRequest = Readonly<{
  /** A process that is in the workspace's namespaces. */
  namespacePid: number
  stdin: string
  stdout: string
  stderr: string
  workdir: string
  /** Capabilities that remain, as a bit set. */
  capabilities: bigint
  processesMax: number
  filesMax: number
  seccompFilter: string
  /** Files that a process joins a control group by. */
  cgroups: readonly string[]
  /** Those it begins on; none means all. */
  processors: readonly number[]
  argv: readonly string[]
  env: Readonly<Record<string, string>>
}>

export type Launcher = Readonly<{
  mount(type: string, target: string, flags: number, data: string): Promise<void>
  unmount(target: string): Promise<void>
  makeFifos(paths: readonly string[]): Promise<void>
  /** Subvolumes of btrfs, in the quota group of the number. */
  makeSubvolume(path: string, bytesMax: number, group: number): Promise<void>
  copySubvolume(source: string, path: string, group: number): Promise<void>
  removeSubvolume(path: string): Promise<void>
  /** Puts a copy of the folder `source`, as `upper`, into `target`. `stage` is any empty folder. */
  copyTree(source: string, target: string, stage: string): Promise<void>
  enter(request: EnterRequest): Promise<EnteredCommand>
  /** Settles when the launcher is gone, which ends the supervisor: without it nothing works. */
  exited: Promise<void>
}>

export function startLauncher(): Launcher {
  const perl = startPerlProcess('./launcher.pl')
  return {
    mount: (type, target, flags, data) => perl.done('mount', type, target, String(flags), data),
    unmount: (target) => perl.done('umount', target),
    makeFifos: (paths) => perl.done('fifo', ...paths),
    makeSubvolume: (path, bytesMax, group) => perl.done('subvolume', path, String(bytesMax), String(group)),
    copySubvolume: (source, path, group) => perl.done('subcopy', path, source, String(group)),
    removeSubvolume: (path) => perl.done('subdelete', path),
    copyTree: (source, target, stage) => perl.done('copy', source, target, stage),
    enter: (request) =>
      perl.process(
        'enter',
        String(request.namespacePid),
        request.stdin,
        request.stdout,
        request.stderr,
        request.workdir,
        request.capabilities.toString(16),
        String(request.processesMax),
        String(request.filesMax),
        request.seccompFilter,
        request.cgroups.join('\n'),
        request.processors.join(','),
        String(request.argv.length),
        ...request.argv,
        ...Object.entries(request.env).map(([name, value]) => `${name}=${value}`),
      ),
    exited: perl.exited,
  }
}
