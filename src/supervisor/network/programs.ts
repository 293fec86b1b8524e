import { existsSync } from 'node:fs'
import { AppError } from '../../contract/app-error.ts'

/** The programs of the system that the hub starts, by path: an ordinary user's search path often lacks them. */
export type Programs = Readonly<{ ip: string; nft: string; nsenter: string }>

const folders = ['/usr/sbin', '/usr/bin', '/sbin', '/bin', '/usr/local/sbin', '/usr/local/bin']
const packages: Readonly<Record<keyof Programs, string>> = { ip: 'iproute2', nft: 'nftables', nsenter: 'util-linux' }

export function locatePrograms(): Programs {
  const locate = (name: keyof Programs): string => {
    const folder = folders.find((one) => existsSync(`${one}/${name}`))
    if (folder !== undefined) return `${folder}/${name}`
    throw new AppError(
      'ERR_INIT_FAILED',
      `Workspaces have no network: '${name}' is missing. Install ${packages[name]}.`,
    )
  }
  return { ip: locate('ip'), nft: locate('nft'), nsenter: locate('nsenter') }
}
