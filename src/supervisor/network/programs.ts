import { existsSync } from 'node:fs'
import { delimiter } from 'node:path'
import { AppError } from '../../contract/app-error.ts'

/** The programs of the system that the hub starts, by path. */
export type Programs = Readonly<{ ip: string; nft: string; nsenter: string }>

const packages: Readonly<Record<keyof Programs, string>> = { ip: 'iproute2', nft: 'nftables', nsenter: 'util-linux' }

/** `searchPath` is the one that the supervisor was started with: that of an ordinary user often lacks folders. */
export function locatePrograms(searchPath: string): Programs {
  const folders = searchPath.split(delimiter)
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
