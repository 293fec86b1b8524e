import { AppError } from '../../contract/app-error.ts'
import { type AptSettings, readAptSettings } from './apt-settings.ts'
import { type BuildEnvironment, runInBuildEnvironment } from './build-environment.ts'

type DebootstrapRequest = Readonly<{
  suite: string
  mirror: string | undefined
  /** The root file system is created here, as `rootfs`. */
  directory: string
  /** Proxy variables of the environment. */
  environment: Readonly<Record<string, string>>
  signal: AbortSignal
  onProgress(text: string): void
}>

/**
 * Installs a minimal Debian system, with packages verified by the archive's signature. debootstrap wants to create device nodes,
 * which is impossible in a user namespace; with `container` set it uses those that it finds, which are bind-mounted.
 */
export async function runDebootstrap(
  buildEnvironment: BuildEnvironment,
  request: DebootstrapRequest,
): Promise<readonly string[]> {
  if (buildEnvironment.idCount === 1) {
    throw new AppError(
      'ERR_CAPABILITY_MISSING',
      `debootstrap needs user ids of its own. ${buildEnvironment.limitation ?? ''}`,
      {
        field: 'from',
      },
    )
  }
  const settings = await readAptSettings(request)
  let hasLists = true
  await runInBuildEnvironment(buildEnvironment, {
    argv: ['sh', '-c', SCRIPT],
    program: 'debootstrap',
    directory: request.directory,
    ownMounts: true,
    signal: request.signal,
    environment: { ...request.environment, ...variables(request.suite, settings) },
    onLine(line) {
      if (line === NO_LISTS) hasLists = false
      else if (line.startsWith('I: ')) request.onProgress(line.slice(3))
    },
  })
  const missing = 'The lists of packages could not be fetched; run apt-get update in the workspace.'
  return hasLists ? settings.notes : [...settings.notes, missing]
}

const NO_LISTS = 'castellan: no lists'

const variables = (suite: string, { mirror, sources, configuration }: AptSettings): Record<string, string> => ({
  SUITE: suite,
  MIRROR: mirror,
  SOURCES: sources,
  APT_CONFIGURATION: configuration,
  NO_LISTS,
})

/** Files that debootstrap copied from this machine (host name, name servers) are removed at the end. */
const SCRIPT = `
set -eu
umask 022
command -v debootstrap >/dev/null || { echo 'E: debootstrap is missing: install the package debootstrap.'; exit 127; }
mount --no-canonicalize --rbind . /mnt
cd /mnt/rootfs
mkdir dev
mount -t tmpfs -o mode=0755 none dev
for node in null zero full random urandom tty; do
  touch dev/$node
  mount --bind /dev/$node dev/$node
done
container=lxc debootstrap --variant=minbase --force-check-gpg "$SUITE" /mnt/rootfs "$MIRROR" 2>&1

printf '%s' "$SOURCES" >etc/apt/sources.list
printf '%s' "$APT_CONFIGURATION" >etc/apt/apt.conf.d/90castellan
echo force-unsafe-io >etc/dpkg/dpkg.cfg.d/castellan
printf '#!/bin/sh\\nexit 101\\n' >usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
cp /etc/hosts etc/hosts
echo 'I: Fetching the lists of packages'
rm -rf var/lib/apt/lists var/cache/apt
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
chroot . apt-get -qq update >/dev/null 2>&1 || echo "$NO_LISTS"
chroot . apt-get -qq clean
rm -f etc/hostname etc/resolv.conf etc/hosts etc/machine-id var/log/bootstrap.log
echo workspace >etc/hostname
printf '127.0.0.1 localhost\\n::1 localhost\\n' >etc/hosts
: >etc/resolv.conf
: >etc/machine-id
`
