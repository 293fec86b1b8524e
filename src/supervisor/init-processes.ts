import { type EnteredCommand, startPerlProcess } from './perl-process.ts'

/** The id maps of a workspace's user namespace, in the format of `/proc/PID/uid_map`. */
export type IdMaps = Readonly<{ uids: string; gids: string }>
/** The mounts of a workspace's root file system. Paths are those that its init process sees before pivot_root. */
export type HoldOrder = Readonly<{
  hostname: string
  /** The mount point of the root file system. */
  root: string
  /** Read-only bind mounts of the host's file system. */
  binds: readonly Readonly<{ source: string; target: string }>[]
  /** `beneath` is resolved below `source` without following symbolic links. */
  mounts: readonly Readonly<{ source: string; beneath: string; target: string; readOnly: boolean }>[]
  /** Read-only bind mounts of single files. */
  files: readonly Readonly<{ source: string; target: string }>[]
}>

/** Starts and configures the init processes of workspaces, through init-processes.pl. */
export type InitProcesses = Readonly<{
  /** Starts a process that joins the control groups, creates its namespaces and waits for `hold`. Returns its pid. */
  prewarm(cgroups: readonly string[], ids: IdMaps): Promise<number>
  /** Kills the process unless it has become the init process of a workspace. */
  discard(pid: number): Promise<void>
  /** Makes the process the init process of a workspace. Resolves when the workspace can be entered. */
  hold(pid: number, order: HoldOrder): Promise<EnteredCommand>
  /** Settles when init-processes.pl has exited. */
  exited: Promise<void>
}>

type InitProcessesOptions = Readonly<{
  seccompFilter: string
  /** An empty folder that every user id can reach. */
  stage: string
  /** The program to mount at SEARCH_PROGRAM, if there is one. */
  searchProgram: string | undefined
  sharedMemoryBytes: number
}>

export function startInitProcesses(options: InitProcessesOptions): InitProcesses {
  const { seccompFilter, stage, searchProgram, sharedMemoryBytes } = options
  const perl = startPerlProcess('./init-processes.pl', [
    seccompFilter,
    stage,
    searchProgram ?? '',
    String(sharedMemoryBytes),
  ])
  return {
    prewarm: (cgroups, { uids, gids }) => perl.number('prewarm', cgroups.join('\n'), uids, gids),
    discard: (pid) => perl.done('discard', String(pid)),
    hold: (pid, { hostname, root, binds, mounts, files }) =>
      perl.process(
        'hold',
        String(pid),
        hostname,
        root,
        String(binds.length + mounts.length),
        ...binds.flatMap(({ source, target }) => [source, '', target, 'ro']),
        ...mounts.flatMap((mount) => [mount.source, mount.beneath, mount.target, mount.readOnly ? 'ro' : 'rw']),
        ...files.flatMap(({ source, target }) => [source, target]),
      ),
    exited: perl.exited,
  }
}
