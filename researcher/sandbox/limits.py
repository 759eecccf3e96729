"""Resource limits of a job."""

from pydantic import BaseModel, ConfigDict, Field

MIB = 2**20


class Limits(BaseModel):
    """Limits on one job. A job is always one process, so there is no limit on processes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wall_s: float = Field(30.0, gt=0, description="wall time of the job")
    cpu_s: int = Field(30, gt=0, description="CPU time of all threads")
    memory_bytes: int = Field(4096 * MIB, ge=64 * MIB, description="address space; PyTorch alone needs 1 GiB")
    threads: int = Field(64, gt=0)
    open_files: int = Field(64, ge=16)
    file_bytes: int = Field(64 * MIB, gt=0, description="of one file")
    folder_bytes: int = Field(256 * MIB, gt=0, description="of all files in the folder")
    folder_entries: int = Field(256, gt=0, lt=500, description="files and folders in the folder")
    output_bytes: int = Field(64 * 1024, gt=0, description="of what is printed")
    compute_threads: int = Field(1, gt=0, description="of PyTorch, numba and BLAS")
