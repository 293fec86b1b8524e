import { existsSync } from 'node:fs'
import { delimiter } from 'node:path'
import { AppError } from '../../contract/app-error.ts'

/** The paths of the system programs that the hub runs. */
export type Programs = Readonly<{ ip: string; nft: string; nsenter: string }>

const packages: Readonly<Record<keyof Programs, string>> = { ip: 'iproute2', nft: 'nftables', nsenter: 'util-linux' }

/** `searchPath` is the supervisor's own: an ordinary user's PATH often lacks the sbin folders. */
export function locatePrograms(searchPath: string): Programs {
  const folders = searchPath.split(delimiter)
  const locate = (name: keyof Programs): string => {
    const folder = folders.find((one) => existsSync(`${one}/${name}`))
    if (folder !== undefined) return `${folder}/${name}`
    throw new AppError(
      'ERR_INIT_FAILED',
      `'${name}' is missing, which networks between workspaces and allow_internet need. Install ${packages[name]}.`,
    )
  }
  return { ip: locate('ip'), nft: locate('nft'), nsenter: locate('nsenter') }
}
