/** Whether files in memory, such as the weights that runners share, get huge pages from this kernel. */
import { release } from 'node:os';
import { kernelFile } from './process-stat.ts';

export const SHARED_PAGES = '/sys/kernel/mm/transparent_hugepage/shmem_enabled';

export interface HugePages {
  /** The kernel's setting in SHARED_PAGES; null: it has no huge pages. */
  readonly shared_setting: string | null;
  /** Whether the weights that runners share get huge pages. */
  readonly for_weights: boolean;
}

/** root: the directory that holds /sys; kernel: release of the kernel. Tests replace both. */
export function hugePages(root = '', kernel = release()): HugePages {
  const setting = /\[(\w+)\]/.exec(kernelFile(`${root}${SHARED_PAGES}`) ?? '')?.[1] ?? null;
  // A runner asks for huge pages, and from Linux 6.1 on it gets them also where the setting is `never`.
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  const isGivenAnyway = major > 6 || (major === 6 && minor >= 1);
  const isDenied = setting === null || setting === 'deny' || (setting === 'never' && !isGivenAnyway);
  return { shared_setting: setting, for_weights: !isDenied };
}
